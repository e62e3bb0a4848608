"""`Fault`: an action and its trigger; `Action`: the protocol that each file beside this one fulfils."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from chaoskit import triggers
from chaoskit.errors import UsageError
from chaoskit.triggers import Trigger

#: One rank (negative: from the last), several, or every one of them.
RankSpec = int | tuple[int, ...] | str


class Action(Protocol):
    """What goes wrong.

    `needs` are the capability protocols of the environment. `apply` does it and returns evidence; it may raise
    LookupError where there is nothing to strike. `observed` is asked again and again until it returns evidence
    that the fault took effect (None: not yet). It is healed `heal_after` seconds later, or as soon as
    `heal_launches` further launches have ended (or the run has); both None: there is nothing to heal. `env` is the
    environment, which has every capability in `needs`.
    """

    @property
    def name(self) -> str: ...
    @property
    def needs(self) -> tuple[type, ...]: ...
    @property
    def heal_after(self) -> float | None: ...
    @property
    def heal_launches(self) -> int | None: ...
    def victims(self, world_size: int) -> Sequence[int]: ...
    def apply(self, env: Any, world_size: int) -> Mapping[str, Any]: ...
    def observed(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any] | None: ...
    def heal(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any]: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and when. Made by the functions of `chaoskit.faults`; a trigger is added by the
    methods here. Several faults of one run strike in the order given: each is armed once the one before it struck."""

    action: Action
    trigger: Trigger | None = None

    def at_step(self, step: int) -> Fault:
        """As the rank is about to take step `step`, counted from 1 over the whole training."""
        return replace(self, trigger=triggers.AtStep(step))

    def during_save(self, n: int) -> Fault:
        """Inside the n-th save (from 1): bytes have been written, the call has not returned."""
        return replace(self, trigger=triggers.AtSave(n, True))

    def after_save(self, n: int) -> Fault:
        """As soon as the n-th save (from 1) has returned."""
        return replace(self, trigger=triggers.AtSave(n, False))

    def between_writes(self, n: int) -> Fault:
        """In the n-th save (from 1), when its first write has returned and others are to come; in the middle of it
        where it is a single write."""
        return replace(self, trigger=triggers.BetweenWrites(n))

    def at_start(self) -> Fault:
        """Before the first collective of an incarnation: of the first one, or of the recovery from the fault before."""
        return replace(self, trigger=triggers.AtStart())

    def before_relaunch(self) -> Fault:
        """When the job's command has ended and before it is started again; the fault before it has struck."""
        return replace(self, trigger=triggers.AtRelaunch())

    def after(self, seconds: float) -> Fault:
        """`seconds` after the launch, or after the fault before it was applied."""
        return replace(self, trigger=triggers.After(seconds))

    def at_random(self, seed: int) -> Fault:
        """At a step drawn by `seed`; the step drawn is stored with the run."""
        return replace(self, trigger=triggers.AtRandom(seed))

    def __str__(self) -> str:
        return f"{self.action} {self.trigger}" if self.trigger is not None else str(self.action)

    def to_json(self) -> dict[str, Any]:
        """The form that a stored schedule keeps."""
        if self.trigger is None:
            raise UsageError(f"{self.action}: no trigger; add .at_step(n), .after_save(n), .at_start() or another")
        return {"text": str(self), "action": self.action.to_json(), "trigger": self.trigger.to_json()}


def check_ranks(name: str, ranks: RankSpec) -> None:
    """Raises UsageError unless `ranks` is a rank, a tuple of ranks or 'all'."""
    several = ranks if isinstance(ranks, tuple) else (ranks,)
    whole = all(isinstance(rank, int) and not isinstance(rank, bool) for rank in several)
    if ranks != "all" and (not several or not whole):
        raise UsageError(f"{name}: rank must be a whole number, a tuple of them or 'all', not {ranks!r}")


def resolve_ranks(name: str, ranks: RankSpec, world_size: int) -> tuple[int, ...]:
    """The ranks meant in a world of that size; raises UsageError for one that it does not have."""
    if ranks == "all":
        return tuple(range(world_size))
    found = []
    for rank in ranks if isinstance(ranks, tuple) else (ranks,):
        assert isinstance(rank, int)
        if not -world_size <= rank < world_size:
            raise UsageError(f"{name}: there is no rank {rank} in a job of {world_size}")
        found.append(rank % world_size)
    return tuple(sorted(set(found)))


def show_ranks(ranks: RankSpec) -> str:
    """'rank 1', 'ranks 0, 1', 'all ranks', 'the last rank'."""
    if ranks == "all":
        return "all ranks"
    if ranks == -1:
        return "the last rank"
    if isinstance(ranks, tuple):
        return "ranks " + ", ".join(map(str, ranks))
    return f"rank {ranks}"
