"""`Recovery`: how long the job took to come back from a fault, and how much it lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from chaoskit.analysis.alignment.timeline import Timeline, struck_at
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.checkpoints.resumes import position_at, resume_after
from chaoskit.analysis.record.harness_record import FaultRecord, NodeRecord
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.recovery.idle_time import waited
from chaoskit.analysis.recovery.pace import launch_seconds, step_seconds
from chaoskit.analysis.recovery.throughput import Throughput, throughput


@dataclass(frozen=True)
class Recovery:
    """What one observed fault cost.

    `struck` is the incarnation that it struck, `incarnation` the next one that took a step: None where there was
    none, because the job rode the fault out (`ridden_out`) or never came back. `detection_seconds` run from the fault
    until something ended or started because of it; `recovery_seconds` (RTO) until the next step was about to be
    taken. `position` is the number of steps that had been completed, `steps_lost` (RPO) how many of them had to be
    taken again. None stands for what is not known or did not happen.

    Detection, rank by rank, runs from the moment that the fault took effect (the first packet that was stopped, the
    end of the node): `noticed_seconds` until the first rank that lived on in the struck incarnation had ended because
    of it, `stopped_seconds` until the last rank of it had. A rank that was killed has ended when its node, its launch
    or its incarnation had. None if the job rode it out.
    """

    fault: int
    name: str
    struck: int | None
    incarnation: int | None
    ridden_out: bool
    detection_seconds: float | None
    noticed_seconds: float | None
    stopped_seconds: float | None
    recovery_seconds: float | None
    position: int | None
    resumed_from: int | None
    last_valid: int | None
    steps_lost: int | None
    relaunches: int
    restarts: int


def recoveries(history: History, timeline: Timeline, written: tuple[Checkpoint, ...]) -> tuple[Recovery, ...]:
    """The measures of every fault that was observed, in the order of the faults. `written` are the run's
    `checkpoints`."""
    return tuple(_recovery(history, timeline, written, f) for f in history.faults if f.observed is not None)


def _recovery(
    history: History, timeline: Timeline, written: tuple[Checkpoint, ...], fault: FaultRecord
) -> Recovery:
    t, seen = struck_at(fault), fault.observed
    assert t is not None and seen is not None
    struck = max((inc for inc in history.incarnations if inc.start <= t), key=lambda inc: inc.start, default=None)
    later = [inc for inc in history.incarnations if inc.start > t]
    survived = struck is not None and _survived(history, struck, t)
    if survived:
        # What came later is the doing of the next fault.
        later = []
    following = next((inc for inc in later if inc.first_step is not None), None)
    position = position_at(timeline, struck, t) if struck is not None else 0
    noticed, stopped = (None, None) if struck is None else _ended(history, struck, t, later)
    resumed = last_valid = lost = back = None
    ridden_out = False
    if following is not None:
        back = following.first_step
        resumed = timeline.base(following.index)
        if struck is not None:
            resume = resume_after(history, timeline, written, following)
            # A save that was running at the fault has settled, if the job was right to resume from it.
            settled = resumed in resume.acceptable and resume.window and not timeline.starts[following.index].apart
            last_valid = resumed if settled else resume.last_valid
            # Of a fault that the job went on under for a while, the steps until it did not.
            position = max(position, resume.position) if resume.before == struck.index else position
        lost = max(0, position - resumed) if resumed is not None else None
    elif not later and struck is not None:
        back = _next_step(struck, _over(history, fault, struck, seen))
        ridden_out = survived or back is not None or history.end == "finished"
        lost = 0 if ridden_out else None
    used = later[: later.index(following) + 1] if following is not None else later
    if ridden_out:
        noticed = stopped = None
    since = _took_effect(fault, seen)
    launches = [one for one in history.launches if one.begun > t and (not used or one.index <= used[-1].launch)]
    return Recovery(
        fault=fault.index,
        name=fault.name,
        struck=struck.index if struck is not None else None,
        incarnation=following.index if following is not None else None,
        ridden_out=ridden_out,
        detection_seconds=_since(seen, None if ridden_out else _noticed(history, t, later)),
        noticed_seconds=_since(since, noticed),
        stopped_seconds=_since(since, stopped),
        recovery_seconds=_since(seen, back),
        position=position,
        resumed_from=resumed,
        last_valid=last_valid,
        steps_lost=lost,
        relaunches=0 if survived else len(launches),
        restarts=sum(inc.restarted for inc in used),
    )


def _survived(history: History, inc: Incarnation, t: float) -> bool:
    """Whether every rank went on past the fault at `t` until another fault struck the same incarnation."""
    ends = min((one.start for one in history.incarnations if one.start > t), default=float("inf"))
    times = [own for f in history.faults if f.observed is not None and (own := struck_at(f)) is not None]
    following = min((own for own in times if t < own < ends), default=None)
    # One more step may have been under way on the ranks that were not struck.
    return following is not None and all(
        lifetime.steps.until(following) - lifetime.steps.until(t) > 1 for lifetime in inc.ranks.values()
    )


def _took_effect(fault: FaultRecord, seen: float) -> float:
    """When the fault took effect: as its evidence tells, else when it was observed."""
    since = fault.evidence.get("since")
    return since if isinstance(since, float) else seen


def _over(history: History, fault: FaultRecord, struck: Incarnation, seen: float) -> float:
    """From when on a step of the struck incarnation shows that it is back: once the fault was healed. One that lasted
    until the job had come to its end did not keep it from going on."""
    ended = next((one.ended for one in history.launches if one.index == struck.launch), None)
    to_the_end = fault.healed is not None and ended is not None and fault.healed >= ended
    return seen if to_the_end and history.end == "finished" else max(seen, fault.healed or seen)


#: What made a node end that was struck itself: it does not count as one that noticed.
STRUCK = ("lost", "replaced", "removed", "evicted")
#: What is ended by the harness has noticed nothing.
OURS = ("hang", "deadline", "interrupted", "stop")


def _ended(
    history: History, struck: Incarnation, t: float, later: list[Incarnation]
) -> tuple[float | None, float | None]:
    """When the first rank of the struck incarnation that was not struck itself had ended, and when the last of all."""
    limits = [inc.start for inc in later[:1]]
    limits += [
        one.ended
        for one in history.launches
        if one.index == struck.launch and one.ended is not None and one.cause not in OURS
    ]
    others: list[float] = []
    every: list[float | None] = []
    for lifetime in struck.ranks.values():
        node = next((one for one in reversed(history.nodes) if _lived_on(lifetime, one, struck)), None)
        own = [node.ended] if node is not None and node.ended is not None and node.cause not in OURS else []
        end = lifetime.left if lifetime.left is not None else min([*own, *limits], default=None)
        every.append(end)
        if end is not None and (node is None or node.cause not in STRUCK) and end >= t:
            others.append(end)
    known = [end for end in every if end is not None]
    last = max(known, default=t)
    if len(known) < len(every) or not known:
        return min(others, default=None), None
    # Where all had ended before, it struck nobody.
    return (min(others, default=last), last) if last >= t else (None, None)


def _lived_on(lifetime: RankLifetime, node: NodeRecord, inc: Incarnation) -> bool:
    return (node.launch, node.node) == (inc.launch, lifetime.node) and node.begun <= lifetime.start


def _since(start: float, t: float | None) -> float | None:
    # The fault may be observed a little later than the job reacts to it.
    return None if t is None else max(0.0, t - start)


def _next_step(inc: Incarnation, t: float) -> float | None:
    later = [
        lifetime.steps.times[at]
        for lifetime in inc.ranks.values()
        if (at := lifetime.steps.until(t)) < len(lifetime.steps)
    ]
    return min(later, default=None)


def _noticed(history: History, t: float, later: list[Incarnation]) -> float | None:
    ends = [launch.ended for launch in history.launches if launch.ended is not None and launch.ended >= t]
    return min([*ends, *(inc.start for inc in later)], default=None)


@dataclass(frozen=True)
class Summary:
    """What the table of results shows of a run: the resume after the fault that lost most steps, the longest seconds
    until a rank had noticed, until all had stopped and until the job was back (see `Recovery`), the longest seconds
    from a notice of preemption to a settled checkpoint, the grace that would just have sufficed, all relaunches and
    restarts together, the seconds that were spent waiting for a clock (`waits`), what a launch cost and how long a
    step took (`pace`), the pace of each rank (`throughput`), and the errors of the probe. None if it is not known or
    did not happen."""

    resumed_from: int | None = None
    last_valid: int | None = None
    steps_lost: int | None = None
    recovery_seconds: float | None = None
    noticed_seconds: float | None = None
    stopped_seconds: float | None = None
    saved_seconds: float | None = None
    sufficient_grace: float | None = None
    relaunches: int = 0
    restarts: int = 0
    waited_seconds: float = 0.0
    launch_seconds: float | None = None
    step_seconds: float | None = None
    probe_errors: tuple[str, ...] = ()
    throughput: tuple[Throughput, ...] = field(default=(), compare=False)


class Noticed(Protocol):
    """What `summary` needs of a notice (see `Emergency`)."""

    @property
    def saved_seconds(self) -> float | None: ...
    @property
    def sufficient_grace(self) -> float | None: ...


class Measured(Protocol):
    """What `summary` needs of a case."""

    @property
    def history(self) -> History: ...
    @property
    def recoveries(self) -> Sequence[Recovery]: ...
    @property
    def emergencies(self) -> Sequence[Noticed]: ...
    @property
    def probe_errors(self) -> Sequence[object]: ...


def summary(case: Measured) -> Summary:
    """The summary of a run; of one without an observed fault, empty."""
    measured, window = case.recoveries, case.history.window
    worst = max(measured, key=lambda one: (one.steps_lost is not None, one.steps_lost or 0), default=None)
    return Summary(
        resumed_from=worst.resumed_from if worst is not None else None,
        last_valid=worst.last_valid if worst is not None else None,
        steps_lost=worst.steps_lost if worst is not None else None,
        recovery_seconds=_longest(one.recovery_seconds for one in measured),
        noticed_seconds=_longest(one.noticed_seconds for one in measured),
        stopped_seconds=_longest(one.stopped_seconds for one in measured),
        saved_seconds=_longest(one.saved_seconds for one in case.emergencies),
        sufficient_grace=_longest(one.sufficient_grace for one in case.emergencies),
        # In a window, launch 0 is another run's.
        relaunches=max(0, len(case.history.launches) - 1 - (window.first_launch if window is not None else 0)),
        restarts=sum(inc.restarted for inc in case.history.incarnations),
        waited_seconds=waited(case.history),
        launch_seconds=launch_seconds(case.history),
        step_seconds=step_seconds(case.history),
        probe_errors=tuple(map(str, case.probe_errors)),
        throughput=throughput(case.history),
    )


def _longest(times: Iterable[float | None]) -> float | None:
    return max((seconds for seconds in times if seconds is not None), default=None)
