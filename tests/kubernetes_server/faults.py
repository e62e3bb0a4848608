"""What goes wrong between a client and the server, decided at every call."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.kubernetes_server.calls import Call
from tests.kubernetes_server.refusals import Refusal, conflict, expired, timed_out, too_many_requests

Json = dict[str, Any]
Events = Iterator[Json | bytes | None]
FaultKind = Literal["conflict", "gone", "too_many", "timeout", "reset", "drop", "delay", "duplicate"]
WRITES = ("create", "update", "patch", "delete", "deletecollection")
TOO_OLD = "The resourceVersion for the provided watch is too old."
#: Seconds without an event after which a watch that is to be dropped is dropped all the same.
IDLE = 0.2


@dataclass(frozen=True)
class ApiFault:
    """One thing that goes wrong.

    conflict, too_many, timeout: the call is answered with 409, 429, 504. gone: 410, `within` the stream of a watch
    `after` events, or by the status. reset: the connection is cut instead of an answer. drop: a watch is cut `after`
    events. delay: a watch tells nothing for `seconds`. duplicate: a watch tells its event number `after` twice.

    With `applied` the call is done all the same, before it is answered with an error or not at all.
    """

    kind: FaultKind
    after: int = 0
    seconds: float = 0.0
    applied: bool = False
    within: bool = True

    def fits(self, call: Call) -> bool:
        """Whether it can happen to such a call on a real server."""
        if self.kind in ("drop", "delay", "duplicate"):
            return call.verb == "watch"
        if self.kind == "gone":
            return call.verb == "watch" or (call.verb == "list" and "continue" in call.query)
        return self.kind != "conflict" or call.verb in WRITES


#: What happens to a call, None for nothing.
Decide = Callable[[Call], ApiFault | None]


def at_calls(faults: Mapping[int, ApiFault]) -> Decide:
    """Decide by the number of the call since now; 0 is the first."""
    first: list[int] = []

    def decide(call: Call) -> ApiFault | None:
        first[:] = first or [call.number]
        return faults.get(call.number - first[0])

    return decide


def seeded(seed: int, *, rate: float, kinds: tuple[FaultKind, ...] = FaultKind.__args__) -> Decide:  # type: ignore[attr-defined]
    """Decide by chance, and the same for the same seed and the same order of calls."""
    chance = random.Random(seed)

    def decide(call: Call) -> ApiFault | None:
        happens, applied, within = chance.random() < rate, chance.random() < 0.5, chance.random() < 0.5
        after, seconds, choice = chance.randrange(3), chance.uniform(0.0, 0.3), chance.random()
        faults = [ApiFault(kind, after, seconds, applied, within) for kind in kinds]
        fitting = [fault for fault in faults if fault.fits(call)]
        return fitting[int(choice * len(fitting))] if happens and fitting else None

    return decide


def refusal_of(fault: ApiFault, call: Call) -> Refusal | None:
    """The error that a fault answers a call with; None where it lets the call be answered."""
    if fault.kind == "conflict":
        return conflict(call.resource, call.name or "unknown")
    if fault.kind == "too_many":
        return too_many_requests()
    if fault.kind == "timeout":
        return timed_out()
    if fault.kind == "gone" and not (call.verb == "watch" and fault.within):
        return expired(TOO_OLD)
    return None


def disturbed(events: Events, fault: ApiFault) -> Events:
    """The events of a watch with what goes wrong in it; raises ConnectionResetError where it is to be cut."""
    yield from _late(fault.seconds) if fault.kind == "delay" else ()
    told, quiet = 0, time.monotonic()
    for event in events:
        ends = told >= fault.after or time.monotonic() - quiet > IDLE
        if fault.kind == "drop" and ends:
            raise ConnectionResetError("this watch is dropped")
        if fault.kind == "gone" and ends:
            yield {"type": "ERROR", "object": expired(TOO_OLD).status()}
            return
        yield event
        if event is not None:
            if fault.kind == "duplicate" and told == fault.after:
                yield event
            told, quiet = told + 1, time.monotonic()


def _late(seconds: float) -> Events:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        time.sleep(min(0.02, seconds))
        yield None
