"""CUDA graphs: a replay runs no hook, so what the capture has seen is told again with each replay."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chaoskit.probe.captured_graph import CapturedGraph

if TYPE_CHECKING:
    from chaoskit.probe.parts import StepObserver
    from chaoskit.probe.session import ProbeSession


def hook_graphs(session: ProbeSession, observer: StepObserver, graph_class: Any, outside: Callable[[], bool]) -> None:
    """Watch the captures and replays of graphs. During a capture nothing may be read of the device."""
    begin, end, replay = graph_class.capture_begin, graph_class.capture_end, graph_class.replay
    known: weakref.WeakKeyDictionary[Any, CapturedGraph] = weakref.WeakKeyDictionary()

    @functools.wraps(begin)
    def begun(graph: Any, *args: Any, **kwargs: Any) -> Any:
        result = begin(graph, *args, **kwargs)
        observer.capturing = known[graph] = CapturedGraph()
        return result

    @functools.wraps(end)
    def ended(graph: Any) -> Any:
        observer.capturing = None
        return end(graph)

    @functools.wraps(replay)
    def replayed(graph: Any) -> Any:
        captured = known.get(graph)
        # Inside a model or a backward pass it is a part of what the hooks see.
        if captured is None or not outside():
            return replay(graph)
        session.guard("step", observer.replays, captured)
        result = replay(graph)
        order = session.guard("step", observer.replayed, captured)
        if isinstance(order, BaseException):
            raise order
        return result

    graph_class.capture_begin, graph_class.capture_end, graph_class.replay = begun, ended, replayed
