"""`Fault`: an action and its trigger; `Action`: the protocol that each file beside this one fulfils."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from chaoskit import triggers
from chaoskit.capabilities import CanDegrade, CanHideNames, CanPartition
from chaoskit.errors import UsageError
from chaoskit.triggers import Trigger

#: One rank (negative: from the last), several, or every one of them.
RankSpec = int | tuple[int, ...] | str


class Action(Protocol):
    """What goes wrong.

    `needs` are the capability protocols of the environment. `apply` does it and returns evidence; it may raise
    LookupError where there is nothing to strike. `observed` is asked again and again until it returns evidence
    that the fault took effect (None: not yet). It is healed `heal_after` seconds later, or as soon as
    `heal_launches` further launches have ended; both None: there is nothing to heal. Whatever is not healed by then is
    healed when the run ends. `env` is the environment, which has every capability in `needs`.

    An action may also have what `Manner` lists, and, if it is to be driven while it lasts, a method
    `tick(env, applied)`, which is called every `tick_every` seconds until it is healed and returns what `applied` is
    from then on. `observed` may raise LookupError, too: it is sure by now that there was nothing to strike.
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
class Manner:
    """What an action may say of itself, and what holds where it says nothing.

    `holds`: the rank whose moment it was stays at its gate until the fault has been observed; False for what only shows
    while the ranks go on. `observe_within` seconds it is looked for (None: as long as the controller does otherwise),
    and never for less than it lasts. `tick_every`: see `Action`. `heal_step`: it is healed, if it was not before, as a
    rank is about to take that step or is past it. `nodes_meant` are the nodes that it names, by number.

    `ahead`: it is applied so many steps before the one that it is to strike in, at the beginning of the job where there
    are not so many; `earliest` is the first step that can be struck. `apart`: see `Apart`. `again`: it strikes whenever
    its moment comes again. `names`: every rank records its tensors one by one, in so many steps from the one before it
    strikes.
    """

    holds: bool = True
    observe_within: float | None = None
    tick_every: float | None = None
    heal_step: int | None = None
    nodes_meant: tuple[int, ...] = ()
    ahead: int = 0
    earliest: int = 1
    apart: bool = False
    again: bool = False
    names: int = 0


class Driven(Action, Protocol):
    """An action with a `tick`."""

    def tick(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any]: ...


class Apart(Action, Protocol):
    """An action that strikes each of its victims when that one's own moment comes."""

    def strike(self, env: Any, rank: int, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        """Strike this one, too; what `applied` is from then on. Raises LookupError where it cannot be struck."""
        ...


def manner(action: Action) -> Manner:
    """What the action says of itself."""
    names = [field.name for field in fields(Manner)]
    return Manner(**{name: getattr(action, name) for name in names if hasattr(action, name)})


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and when. Made by the functions of `chaoskit.faults`; a trigger is added by the
    methods here. Several faults of one run strike in the order given: each is armed once the one before it struck."""

    action: Action
    trigger: Trigger | None = None

    def at_step(self, step: int) -> Fault:
        """As the rank is about to take step `step`, counted from 1 over the whole training; a number that is made wrong
        is so in that step.

        Raises UsageError for a step that the fault cannot strike in.
        """
        made = replace(self, trigger=triggers.AtStep(step))
        check_step(made)
        return made

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


def check_step(fault: Fault) -> None:
    """Raises UsageError for a step that comes too early for the fault."""
    trigger, earliest = fault.trigger, manner(fault.action).earliest
    if isinstance(trigger, triggers.AtStep) and trigger.step < earliest:
        raise UsageError(f"{fault}: at_step must be {earliest} or later: step {trigger.step} has none before it")


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


def check_nodes(fault: Fault, count: int) -> None:
    """Raises UsageError unless a job of `count` nodes has the nodes that the fault names, each of them once."""
    job = f"a job of {count} node{'' if count == 1 else 's'}"
    if count < 2 and {CanPartition, CanDegrade, CanHideNames} & set(fault.action.needs):
        raise UsageError(f"{fault.action}: {job} has no network between nodes; launch it on several: nnodes=2")
    named: dict[int, int] = {}
    for node in manner(fault.action).nodes_meant:
        if not -count <= node < count:
            there = "its node is 0" if count == 1 else f"nodes are {', '.join(map(str, range(count)))}"
            raise UsageError(f"{fault.action}: there is no node {node} in {job}; {there}")
        other = named.setdefault(node % count, node)
        if other != node:
            raise UsageError(f"{fault.action}: node {other} and node {node} are the same in {job}; name it once")


def check_number(name: str, argument: str, value: float, *, most: float = math.inf, zero: bool = False) -> float:
    """`value`, unless it is no finite number over 0 (or from 0) and up to `most`: that raises UsageError."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < 0 or (value == 0 and not zero) or value > most:
        least = "a number from 0" if zero else "a positive number"
        raise UsageError(
            f"{name}: {argument} must be {least}{f' up to {most:g}' if most < math.inf else ''}, not {value!r}"
        )
    return float(value)
