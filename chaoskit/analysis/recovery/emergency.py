"""`Emergency`: what a job made of the notice that its node would be taken away: who learnt of it, and what it saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import History, Incarnation, lifetimes, longest_save, saves_whole
from chaoskit.analysis.recovery.recovery import Recovery

#: The kinds of the faults that give notice, and of those by which a cluster does.
KINDS = ("preempt", "time_limit")
EVICTIONS = ("evict_node", "drain_node")
#: A job that was about to be killed is looked at until so many seconds later: events of the same moment come in any
#: order.
_SAME_MOMENT = 0.2


@dataclass(frozen=True)
class Attempt:
    """The saves that ranks began at one position since a notice. `ranks` began it, `open_on` some of them never ended
    it, `missing` are those that should have saved and did not begin. Times are seconds since the notice."""

    position: int
    begun: float
    ranks: tuple[int, ...]
    missing: tuple[int, ...]
    open_on: tuple[int, ...]
    settled: float | None


@dataclass(frozen=True)
class Emergency:
    """One notice, the `recovery` from what followed, and what the job saved in between. All times but `since` are
    seconds since the notice; `over` is when everything on the nodes had ended or was killed."""

    fault: FaultRecord
    recovery: Recovery | None
    struck: Incarnation | None
    attempts: tuple[Attempt, ...]
    longest_save: float | None

    @property
    def nodes(self) -> Mapping[str, Mapping[str, Any]]:
        """What became of each node (see `CanPreempt.preempted`)."""
        if self.fault.kind in EVICTIONS:
            return {str(self.fault.evidence["node"]): _evicted(self.fault.evidence)}
        nodes: Mapping[str, Mapping[str, Any]] = self.fault.evidence["nodes"]
        return nodes

    @property
    def cloud(self) -> str:
        """Who gave notice."""
        return "kubernetes" if self.fault.kind in EVICTIONS else str(self.fault.evidence["cloud"])

    @property
    def since(self) -> float:
        """When notice was given, by the clock of the harness."""
        return float(self.fault.evidence["since"])

    @property
    def grace(self) -> float:
        """Seconds from the notice to the end of the nodes."""
        return float(self.fault.evidence["grace"])

    @property
    def is_false(self) -> bool:
        """Whether nothing was to follow."""
        return bool(self.fault.evidence.get("then") == "nothing")

    @property
    def came_too_early(self) -> bool:
        """Whether there was nothing to save: when notice came, the job had taken no step since its launch. What is
        left of the grace after its first step may be less than any handler needs."""
        first = self.struck.first_step if self.struck is not None else None
        return first is None or first > self.since

    @property
    def over(self) -> float:
        """When the job on all of its nodes had ended or was killed, or the notice was over."""
        ends = [told["killed"] or told["ended"] for told in self.nodes.values()]
        return max((float(end) for end in ends if end is not None), default=self.grace)

    @property
    def killed(self) -> tuple[str, ...]:
        """The nodes on which the job was killed at the end."""
        return tuple(node for node, told in self.nodes.items() if told["killed"] is not None)

    @property
    def received(self) -> float | None:
        """When the first process learnt of it; None if nobody did, or nobody can know (a file)."""
        return min((float(one["after"]) for told in self.nodes.values() for one in told["received"]), default=None)

    @property
    def was_received(self) -> bool:
        """Whether anybody learnt of it, as far as can be known."""
        return self.received is not None or self.cloud == "file"

    @cached_property
    def settled(self) -> Attempt | None:
        """The first checkpoint that was settled before the end."""
        found = [
            one for one in self.attempts if one.settled is not None and one.settled <= self.over + _SAME_MOMENT
        ]
        return min(found, key=lambda one: one.settled or 0.0, default=None)

    @property
    def saved_seconds(self) -> float | None:
        """Seconds from the notice to the first settled checkpoint."""
        return self.settled.settled if self.settled is not None else None

    @property
    def sufficient_grace(self) -> float | None:
        """The seconds of grace that would just have sufficed: until the first checkpoint was settled; if the end came
        before, until it would have been, had it taken as long as the longest save; None if that is not known."""
        if self.saved_seconds is not None:
            return self.saved_seconds
        first = next((one for one in self.attempts if not one.missing), None)
        return None if first is None or self.longest_save is None else round(first.begun + self.longest_save, 3)

    def facts(self) -> dict[str, Any]:
        """A row of a table."""
        settled, recovery = self.settled, self.recovery
        return {
            "fault": self.fault.index,
            "cloud": self.cloud,
            "grace": self.grace,
            "received": self.received,
            "asked": sum(int(told["asked"]) for told in self.nodes.values()),
            "refused": sum(int(told["refused"]) for told in self.nodes.values()),
            "begun": self.attempts[0].begun if self.attempts else None,
            "settled": self.saved_seconds,
            "position": settled.position if settled is not None else None,
            "sufficient_grace": self.sufficient_grace,
            "killed": list(self.killed),
            "over": round(self.over, 3),
            "resumed_from": recovery.resumed_from if recovery is not None else None,
            "steps_lost": recovery.steps_lost if recovery is not None else None,
        }


def emergencies(
    history: History,
    timeline: Timeline,
    written: tuple[Checkpoint, ...],
    recovered: tuple[Recovery, ...],
) -> tuple[Emergency, ...]:
    """Every notice of a preemption that was observed, in order. `written` are the run's `checkpoints`, `recovered` its
    `recoveries`."""
    return tuple(
        _emergency(history, timeline, written, recovered, fault)
        for fault in history.faults
        if fault.kind in (*KINDS, *EVICTIONS) and fault.observed is not None
    )


def _evicted(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """What became of an evicted node, in the words of a preemption. Its SIGTERM came at the beginning."""
    received = [{"after": 0.0}] if evidence["sigterm"]["delivered"] else []
    ends = {name: evidence[name] for name in ("ended", "killed")}
    return {
        "received": received,
        "asked": 0,
        "refused": 0,
        "times": 1,
        "shutdown": None,
        "withdrawn": None,
        **ends,
    }


def _emergency(
    history: History,
    timeline: Timeline,
    written: tuple[Checkpoint, ...],
    recovered: tuple[Recovery, ...],
    fault: FaultRecord,
) -> Emergency:
    since = float(fault.evidence["since"])
    recovery = next((one for one in recovered if one.fault == fault.index), None)
    struck = max(
        (inc for inc in history.incarnations if inc.start <= since), key=lambda inc: inc.start, default=None
    )
    if struck is not None and any(one.index > struck.launch and one.begun <= since for one in history.launches):
        struck = None  # the launch that got the notice had no ranks yet
    attempts: tuple[Attempt, ...] = ()
    if struck is not None and (base := timeline.base(struck.index)) is not None:
        resumed = recovery.resumed_from if recovery is not None else None
        found = _attempts(history, timeline, written, struck, base=base, since=since, resumed=resumed)
        attempts = tuple(sorted(found, key=lambda one: one.begun))
    return Emergency(fault, recovery, struck, attempts, longest_save((*_controls(timeline), history)))


def _attempts(
    history: History,
    timeline: Timeline,
    written: tuple[Checkpoint, ...],
    struck: Incarnation,
    *,
    base: int,
    since: float,
    resumed: int | None,
) -> Iterator[Attempt]:
    both = (*_controls(timeline), history)
    every = [(own.rank, save) for one in both for _, own in lifetimes(one) for save in own.saves]
    any_full = saves_whole(both)
    savers = {rank for rank, save in every if save.full or not any_full} & {*struck.ranks}
    made = ((rank, save) for rank, own in struck.ranks.items() for save in own.saves if save.full or not any_full)
    begun = [(rank, save) for rank, save in made if save.begun >= since]
    for n in sorted({save.n for _, save in begun}):
        here = [(rank, save) for rank, save in begun if save.n == n]
        ranks = tuple(sorted({rank for rank, _ in here}))
        opened = tuple(sorted({rank for rank, save in here if save.ended is None}))
        missing = tuple(sorted(savers - {*ranks}))
        checkpoint = next(
            (one for one in written if one.incarnation == struck.index and one.position == base + n), None
        )
        settled = None
        if checkpoint is not None and not missing and not opened and checkpoint.ok:
            settled = checkpoint.settled_at
            if settled is None and resumed == checkpoint.position:
                settled = checkpoint.ended  # what was resumed from was whole
        after = None if settled is None else round(settled - since, 3)
        yield Attempt(
            base + n, round(min(save.begun for _, save in here) - since, 3), ranks, missing, opened, after
        )


def _controls(timeline: Timeline) -> tuple[History, ...]:
    return tuple(timeline.reference.controls) if timeline.reference is not None else ()
