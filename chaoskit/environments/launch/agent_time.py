"""`save_time`: shortens, in a warm launch, waits of torch's elastic agent on which nothing depends.

The agent stays torch's own: it decides, starts, prints and returns the same. It does not search the sources of its call
stack for the name of a function. If nodes wait only for each other, they do not wait at random, and see at once that
the others have come. The threads that print the output of ranks end as soon as they have printed all. A version of
torch that is built differently keeps its waits.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
import weakref
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

_RENDEZVOUS = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
_TAIL = "torch.distributed.elastic.multiprocessing.tail_log"

#: Seconds between two polls of a rendezvous to which others must come.
LOOK_EVERY = 0.02


def save_time() -> None:
    """Call this in the process that will be the agent, while it has one thread."""
    for spare in (_name_at_once, _meet_at_once, _end_output_at_once):
        with suppress(ImportError, AttributeError):  # another version of torch
            spare()
    _leave_the_parents_objects()


def _name_at_once() -> None:
    """Read the name of the calling method from its frame. The agent puts it into events that have no listener by
    default. torch looks up the source of each frame of the stack for it, twice: 20 ms for each event, because many
    modules are imported."""
    rendezvous: Any = importlib.import_module(_RENDEZVOUS)
    if not hasattr(rendezvous, "get_method_name"):
        return

    def get_method_name(depth: int = 2) -> str:
        try:
            return sys._getframe(depth).f_code.co_name
        except ValueError:  # the stack has fewer frames
            return "no_method_name"

    rendezvous.get_method_name = get_method_name


def _meet_at_once() -> None:
    """Let an agent meet the others without waits. An agent waits up to 0.3 s, at random, before its first rendezvous,
    and then polls once a second whether the others have come: a thousand nodes must not overload the one that keeps the
    state. If the number of nodes is fixed, the round begins when the last one has come, no matter who polls when: torch
    may draw a wait of zero, too, and an early poll finds what a later one would. If the number is not fixed, the time
    decides which nodes take part, so the waits stay."""
    rendezvous: Any = importlib.import_module(_RENDEZVOUS)
    handler, delay = rendezvous.DynamicRendezvousHandler, rendezvous._delay
    meet = handler.next_rendezvous
    meeting = threading.local()  # heartbeats have a thread of their own

    def next_rendezvous(self: Any) -> Any:
        known = all(hasattr(self._state_holder, name) for name in ("_backend", "_token", "_last_sync_time"))
        meeting.handler = self if known and self.settings.min_nodes == self.settings.max_nodes else None
        try:
            return meet(self)
        finally:
            meeting.handler = None

    def _delay(seconds: float | tuple[float, float]) -> None:
        joining = getattr(meeting, "handler", None)
        if joining is None:
            delay(seconds)
        elif not isinstance(seconds, tuple):
            _wait_for_news(joining._state_holder, seconds)

    handler.next_rendezvous, rendezvous._delay = next_rendezvous, _delay


def _wait_for_news(holder: Any, seconds: float) -> None:
    """Return when the state of the rendezvous has changed, or after so many seconds."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(LOOK_EVERY, left))
        found = holder._backend.get_state()
        if found is not None and found[1] != holder._token:
            holder._last_sync_time = -1  # its copy is old
            return


def _end_output_at_once() -> None:
    """Wake the threads that print the output of ranks at the end. They poll for more every tenth of a second."""
    tail: Any = importlib.import_module(_TAIL)
    stop = tail.TailLog.stop
    over = threading.Condition()

    def sleep(seconds: float) -> None:
        with over:
            over.wait(seconds)

    def stop_at_once(self: Any) -> None:
        for finished in self._finished_events.values():
            finished.set()
        with over:
            over.notify_all()
        stop(self)

    tail.time = SimpleNamespace(**{**vars(tail.time), "sleep": sleep})
    tail.TailLog.stop = stop_at_once


def _leave_the_parents_objects() -> None:
    """Keep the agent's exit from tearing down what the parent has imported: it is the parent's."""
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
