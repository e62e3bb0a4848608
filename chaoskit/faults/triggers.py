"""`Trigger`: when a fault strikes. A trigger sees the moments that ranks report and decides whether this is the
one.

Steps are numbered from 1 over the whole training: after a restart the controller finds by alignment at which step
the incarnation really is. A position is a number of completed steps. Triggers that need the reference (the n-th
save, a random step) are resolved into concrete ones before the run; the concrete ones are stored.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from chaoskit.errors import UsageError
from chaoskit.validation import check_flag, check_number, check_whole

#: The kind of a strike of a schedule, in a stored run.
SCHEDULED = "every"


@dataclass(frozen=True)
class Moment:
    """A rank at its gate.

    `kind` is `start` (before it makes its process group), `step` (it is about to take step `position + 1`), `save`
    (inside a save: bytes written, not returned) or `saved` (as soon as the save returned). `call` counts the save
    calls of the rank at this position, from 1. `position` is None if alignment could not tell. One kind has no
    rank: `relaunch`, when the ranks of a launch or of a restart by the job's own agent have ended and the next ones
    have not met.
    """

    kind: Literal["start", "step", "save", "saved", "relaunch"]
    rank: int = -1
    position: int | None = None
    call: int = 1


class StepPlan(Protocol):
    """What a trigger may know of the uninterrupted run."""

    @property
    def steps(self) -> int: ...
    @property
    def saves(self) -> Sequence[int]: ...
    def savers(self, position: int) -> Sequence[int]: ...
    def save_calls(self, rank: int, position: int) -> int: ...


class Trigger(Protocol):
    """When a fault strikes. `delay` is None for triggers that wait for a moment and not for the clock."""

    @property
    def delay(self) -> float | None: ...
    def resolve(self, plan: StepPlan) -> Trigger: ...
    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class AtStep:
    """As a watched rank is about to take step `step` (from 1)."""

    step: int
    delay = None

    def __post_init__(self) -> None:
        check_whole("at_step", "step", self.step, least=1)

    def resolve(self, plan: StepPlan) -> Trigger:
        return self

    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool:
        return (
            moment.kind == "step"
            and moment.rank in watched
            and moment.position is not None
            and moment.position + 1 == self.step
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "at_step", **asdict(self)}

    def __str__(self) -> str:
        return f"at step {self.step}"


@dataclass(frozen=True)
class AtSave:
    """Inside (`inside`) or right after save number `n` (from 1). The reference made that save at `position`."""

    n: int
    inside: bool
    position: int | None = None
    delay = None

    def __post_init__(self) -> None:
        check_flag("AtSave", "inside", self.inside)
        check_whole("during_save" if self.inside else "after_save", "n", self.n, least=1)
        _check_position("AtSave", self.position)

    def resolve(self, plan: StepPlan) -> Trigger:
        if self.n > len(plan.saves):
            return self
        return AtSave(self.n, self.inside, plan.saves[self.n - 1])

    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool:
        if self.position is None or moment.position != self.position:
            return False
        if moment.kind != ("save" if self.inside else "saved"):
            return False
        savers = [rank for rank in watched if plan.save_calls(rank, self.position)]
        # A rank that never saves is struck when a rank that does save is there.
        if savers and moment.rank not in savers:
            return False
        return self.inside or moment.call >= plan.save_calls(moment.rank, self.position)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "at_save", **asdict(self)}

    def __str__(self) -> str:
        where = f" (step {self.position})" if self.position is not None else ""
        return f"{'in the middle of' if self.inside else 'right after'} save {self.n}{where}"


@dataclass(frozen=True)
class BetweenWrites:
    """In save number `n` (from 1), as soon as the first write of a rank has returned and others are still to come.

    The reference made that save at `position`. If it made it by one write (`single`), the moment is inside that
    write.
    """

    n: int
    position: int | None = None
    single: bool = False
    delay = None

    def __post_init__(self) -> None:
        check_whole("between_writes", "n", self.n, least=1)
        _check_position("BetweenWrites", self.position)
        check_flag("BetweenWrites", "single", self.single)

    def resolve(self, plan: StepPlan) -> Trigger:
        if self.n > len(plan.saves):
            return self
        position = plan.saves[self.n - 1]
        calls = sum(plan.save_calls(rank, position) for rank in plan.savers(position))
        return BetweenWrites(self.n, position, calls < 2)

    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool:
        if self.position is None or moment.position != self.position:
            return False
        if moment.kind != ("save" if self.single else "saved"):
            return False
        # An asynchronous write begins first and returns last: then a later one returns first.
        if moment.call > 1 and moment.call >= plan.save_calls(moment.rank, self.position):
            return False
        savers = plan.savers(self.position)
        savers = [rank for rank in savers if rank in watched] or savers
        # Prefer a rank that still has writes of its own to make: it is certainly between two of them.
        return moment.rank in ([rank for rank in savers if plan.save_calls(rank, self.position) > 1] or savers)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "between_writes", **asdict(self)}

    def __str__(self) -> str:
        where = f" (step {self.position})" if self.position is not None else ""
        if self.single:
            return f"in the middle of save {self.n}{where}, which is a single write"
        return f"between the writes of save {self.n}{where}"


@dataclass(frozen=True)
class AtStart:
    """As a watched rank is about to make its process group, before the first collective."""

    delay = None

    def resolve(self, plan: StepPlan) -> Trigger:
        return self

    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool:
        return moment.kind == "start" and moment.rank in watched

    def to_json(self) -> dict[str, Any]:
        return {"kind": "at_start"}

    def __str__(self) -> str:
        return "before the first collective"


@dataclass(frozen=True)
class AtRelaunch:
    """After an incarnation has ended, for any reason, and before the ranks meet again: the command is about to start
    again, or the job's own agent is about to restart the ranks."""

    delay = None

    def resolve(self, plan: StepPlan) -> Trigger:
        return self

    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool:
        return moment.kind == "relaunch"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "at_relaunch"}

    def __str__(self) -> str:
        return "before the relaunch"


@dataclass(frozen=True)
class After:
    """`delay` seconds after the launch, or after the previous fault was applied."""

    delay: float

    def __post_init__(self) -> None:
        check_number("after", "seconds", self.delay, least=0)

    def resolve(self, plan: StepPlan) -> Trigger:
        return self

    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool:
        return False

    def to_json(self) -> dict[str, Any]:
        return {"kind": "after", "delay": self.delay}

    def __str__(self) -> str:
        return f"after {self.delay:g} s"


@dataclass(frozen=True)
class Every:
    """Strike `n` of a schedule of `of` strikes: `delay` seconds after the one before it was applied, the first one
    after the launch. Where the job ends before a later one is due, the schedule ends with it."""

    delay: float
    n: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        check_number("every", "interval", self.delay, over=0)
        check_whole("every", "of", self.of, least=1)
        check_whole("every", "n", self.n, least=1, most=self.of)

    def resolve(self, plan: StepPlan) -> Trigger:
        return self

    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool:
        return False

    def to_json(self) -> dict[str, Any]:
        return {"kind": SCHEDULED, **asdict(self)}

    def __str__(self) -> str:
        return f"after {self.delay:g} s (strike {self.n} of {self.of})"


@dataclass(frozen=True)
class AtRandom:
    """At a step drawn evenly from 2 to the last one, by `seed` alone."""

    seed: int
    delay = None

    def __post_init__(self) -> None:
        check_whole("at_random", "seed", self.seed)

    def resolve(self, plan: StepPlan) -> Trigger:
        return AtStep(random.Random(self.seed).randint(min(2, plan.steps), plan.steps))

    def fires(self, moment: Moment, *, watched: Sequence[int], plan: StepPlan) -> bool:
        return False

    def to_json(self) -> dict[str, Any]:
        return {"kind": "at_random", "seed": self.seed}

    def __str__(self) -> str:
        return f"at a random step (seed {self.seed})"


KINDS: dict[str, type] = {
    "at_step": AtStep,
    "at_save": AtSave,
    "between_writes": BetweenWrites,
    "at_start": AtStart,
    "at_relaunch": AtRelaunch,
    "after": After,
    SCHEDULED: Every,
    "at_random": AtRandom,
}


def _check_position(where: str, position: object) -> None:
    if position is not None:
        check_whole(where, "position", position, least=0)


def from_json(data: Mapping[str, Any]) -> Trigger:
    """The trigger that `to_json` described; raises UsageError for a kind that does not exist."""
    fields = dict(data)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise UsageError(f"there is no trigger {kind!r}; there are {', '.join(KINDS)}")
    trigger: Trigger = KINDS[kind](**fields)
    return trigger
