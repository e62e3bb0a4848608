"""CUDA graphs: a replay runs no hook, so what the capture has seen is told again with each replay."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaoskit.probe.observer import Observer
    from chaoskit.probe.session import ProbeSession


@dataclass
class CapturedGraph:
    """What one graph repeats: the training forwards with their inputs, whose memory stays the same, the losses that
    backward passes begin from, and the optimizer that steps, if any does."""

    forwards: list[tuple[Any, Any, Any]] = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    optimizer: Any = None
    #: In a replay that takes a step: state, parts and tensors by name as they were before it.
    before: tuple[Any, Any, Any] | None = None


def hook_graphs(session: ProbeSession, observer: Observer, graph_class: Any, outside: Callable[[], bool]) -> None:
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
