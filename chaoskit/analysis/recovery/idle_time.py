"""How much of a run was spent waiting for a clock, on purpose or because the job did: what a shorter timeout, of the
`Job` or the job's own, would save."""

from __future__ import annotations

from collections.abc import Iterator

from chaoskit.analysis.record.harness_record import LaunchRecord
from chaoskit.analysis.record.history import History

#: What is quiet for less than this, in seconds, may be at work.
LEAST = 2.0
#: Faults under which a job stands still, for as long as they last.
_STILL = ("pause", "pause_node", "partition", "isolate", "one_way")


def waited(history: History) -> float:
    """Seconds from the last sign of life in each launch until its end, if that was long, and those for which a fault
    lasted that goes by the clock (a freeze)."""
    return sum(_quiet(history, launch) for launch in history.launches) + sum(_frozen(history))


def _quiet(history: History, launch: LaunchRecord) -> float:
    if launch.ended is None:
        return 0.0
    signs = [t for t in _signs(history, launch) if t <= launch.ended]
    quiet = launch.ended - max(signs, default=launch.begun)
    return quiet if quiet > LEAST else 0.0


def _signs(history: History, launch: LaunchRecord) -> Iterator[float]:
    """When a rank of the launch did something, or something was done to it."""
    yield launch.begun
    for inc in history.incarnations:
        for lifetime in inc.ranks.values() if inc.launch == launch.index else ():
            yield lifetime.start
            yield from lifetime.steps.times[-1:]
            ends = [save.ended for save in lifetime.saves] + [load.ended for load in lifetime.loads]
            yield from (end for end in ends if end is not None)
            if lifetime.end is not None:
                yield lifetime.end
    for fault in history.faults:
        yield from (t for t in (fault.applied, fault.observed, fault.healed) if t is not None)


def _frozen(history: History) -> Iterator[float]:
    for fault in history.faults:
        by_the_clock = fault.kind in _STILL
        if by_the_clock and fault.applied is not None and fault.healed is not None:
            yield fault.healed - fault.applied
