"""`Fault`: an action and its trigger. `Action`: the protocol that every action fulfils."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from chaoskit.capabilities import CanDegrade, CanHideNames, CanPartition
from chaoskit.errors import UsageError
from chaoskit.faults import triggers
from chaoskit.faults.triggers import Trigger
from chaoskit.validation import check_schedule, check_whole, shown

#: One rank (negative: from the last), several, or every one of them.
RankSpec = int | tuple[int, ...] | str


class Action(Protocol):
    """What goes wrong.

    `needs` are the capability protocols that the environment must have. `apply` makes it happen and returns
    evidence; it raises LookupError if there is no target. The controller calls `observed` again and again until it
    returns evidence that the fault took effect (None: not yet), or raises LookupError: now it is certain that there
    was no target. The fault is healed `heal_after` seconds later, or as soon as `heal_launches` further launches
    have ended; with both None there is nothing to heal. A fault that is still active when the run ends is healed
    then. `env` is the environment.

    An action may also have the attributes of `ActionTraits`, and a method `tick(env, applied)`. The controller
    calls it every `tick_every` seconds until the fault is healed; its result replaces `applied`.
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
class ActionTraits:
    """What an action may declare, and the defaults.

    - `holds`: the rank that triggered the fault stays at its gate until the fault is observed. False for an effect
      that shows only while the ranks run.
    - `observe_within`: for how many seconds the controller looks for the effect (None: its own limit), but never
      for less than the fault lasts.
    - `tick_every`: see `Action`.
    - `heal_step`: the fault is healed, at the latest, when a rank is about to take that step.
    - `unhurried`: its effect may come from a thread of the job, such as the writer of an asynchronous save, while the
      training is ahead: a rank that reaches `heal_step`, or the step of the next fault, before the effect was seen
      waits at its gate.
    - `nodes_meant`: the numbers of the nodes that it names.
    - `some_nodes`: the environment must keep the effect to the nodes that it names.
    - `picks_requests`: it lets some requests to the storage fail, and not all of their kind.
    - `ahead`: how many steps before its own it is applied, or at the beginning of the job if there are fewer.
    - `earliest`: the first step in which it can strike.
    - `apart`: it strikes each rank at that rank's own moment; see `PerRank`.
    - `again`: it strikes whenever its moment comes again.
    - `metadata`: the cloud whose metadata service the nodes have from the beginning, "" for none; with `imdsv1`, that
      of AWS needs no token.
    - `names`: for how many steps, from the one before it strikes, every rank records its tensors one by one.
    """

    holds: bool = True
    observe_within: float | None = None
    tick_every: float | None = None
    heal_step: int | None = None
    unhurried: bool = False
    nodes_meant: tuple[int, ...] = ()
    some_nodes: bool = False
    picks_requests: bool = False
    ahead: int = 0
    earliest: int = 1
    apart: bool = False
    again: bool = False
    metadata: str = ""
    imdsv1: bool = False
    names: int = 0


class Periodic(Action, Protocol):
    """An action with a `tick`."""

    def tick(self, env: Any, applied: Mapping[str, Any]) -> Mapping[str, Any]: ...


class PerRank(Action, Protocol):
    """An action that strikes each of its ranks when that rank's own moment comes."""

    def strike(self, env: Any, rank: int, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        """Strike this rank, too, and return what replaces `applied`. Raises LookupError if it cannot be struck."""
        ...


def action_traits(action: Action) -> ActionTraits:
    """The traits that the action declares, with the defaults for the others."""
    names = [field.name for field in fields(ActionTraits)]
    return ActionTraits(**{name: getattr(action, name) for name in names if hasattr(action, name)})


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and when. The functions of `chaoskit.faults` make it; the methods here add a
    trigger.

    Several faults of one run strike in the order given: each waits until the one before it has struck.
    """

    action: Action
    trigger: Trigger | None = None

    def __post_init__(self) -> None:
        if isinstance(self.action, type) or not all(hasattr(self.action, name) for name in ("needs", "to_json")):
            raise UsageError(
                f"Fault: action must be an Action; the functions of chaoskit.faults make one, not {shown(self.action)}"
            )
        if self.trigger is not None and (isinstance(self.trigger, type) or not hasattr(self.trigger, "fires")):
            raise UsageError(
                f"Fault: trigger must be a Trigger, which methods such as at_step(3) give, not {shown(self.trigger)}"
            )

    def at_step(self, step: int) -> Fault:
        """Strike as the rank is about to take step `step`, counted from 1 over the whole training.

        A wrong number is wrong in that step. Raises UsageError for a step in which the fault cannot strike.
        """
        made = replace(self, trigger=triggers.AtStep(step))
        check_step(made)
        return made

    def during_save(self, n: int) -> Fault:
        """Strike inside the n-th save (from 1): bytes have been written, the call has not returned."""
        return replace(self, trigger=triggers.AtSave(n, True))

    def after_save(self, n: int) -> Fault:
        """Strike as soon as the n-th save (from 1) has returned."""
        return replace(self, trigger=triggers.AtSave(n, False))

    def between_writes(self, n: int) -> Fault:
        """Strike in the n-th save (from 1), after its first write and before the others; in the middle of a save
        that is a single write.
        """
        return replace(self, trigger=triggers.BetweenWrites(n))

    def at_start(self) -> Fault:
        """Strike before the first collective of an incarnation: of the first one, or of the recovery from the
        previous fault.
        """
        return replace(self, trigger=triggers.AtStart())

    def before_relaunch(self) -> Fault:
        """Strike after the ranks have ended and before they meet again; the previous fault has struck by then. It does
        not matter who starts them again: chaoskit, by a relaunch, or torchrun (`--max-restarts`).
        """
        return replace(self, trigger=triggers.AtRelaunch())

    def after(self, seconds: float) -> Fault:
        """Strike `seconds` after the launch, or after the previous fault was applied."""
        return replace(self, trigger=triggers.After(seconds))

    def every(
        self, interval: float | str, *, during: float | str, among: int | None = None, seed: int = 0
    ) -> tuple[Fault, ...]:
        """Return the strikes of a schedule: one each `interval`, as many as fit into the time `during`, both in seconds
        or as '30m', '6h'. The first comes one interval after the launch.

        With `among`, the number of ranks (or of nodes, for a fault that names one), each strike draws its victim by
        `seed`. The job may end at any time; strikes that were not due by then are no part of the run. Raises UsageError
        for times that hold no strike, for a notice whose grace is no shorter than the interval, and for a fault without
        a victim to draw.
        """
        between, count = check_schedule("every", interval, during)
        if (lasts := getattr(self.action, "grace", 0.0)) >= between:
            raise UsageError(f"every: {self.action} takes {lasts:g} s, and the interval must be longer, not {interval}")
        draw = random.Random(check_whole("every", "seed", seed))
        found = []
        for n in range(1, count + 1):
            action = self.action if among is None else _with_victim(self.action, draw, among)
            found.append(Fault(action, triggers.Every(between, n, count)))
        return tuple(found)

    def at_random(self, seed: int) -> Fault:
        """Strike at a step drawn by `seed`; the step is stored with the run."""
        return replace(self, trigger=triggers.AtRandom(seed))

    def __str__(self) -> str:
        return f"{self.action} {self.trigger}" if self.trigger is not None else str(self.action)

    def to_json(self) -> dict[str, Any]:
        """The form that a stored schedule keeps."""
        if self.trigger is None:
            raise UsageError(f"{self.action}: no trigger; add .at_step(n), .after_save(n), .at_start() or another")
        return {"text": str(self), "action": self.action.to_json(), "trigger": self.trigger.to_json()}


def _with_victim(action: Action, draw: random.Random, among: int) -> Action:
    """The action with another rank or node, drawn from so many."""
    check_whole("every", "among", among, least=1)
    fields_of = getattr(action, "__dataclass_fields__", {})
    named = (name for name in ("rank", "node") if name in fields_of and getattr(action, name) is not None)
    name = next(named, None)
    if name is None or getattr(action, "launcher", False):
        raise UsageError(f"every: {action} names no rank and no node that could be drawn: leave `among` out")
    made: Action = replace(action, **{name: draw.randrange(among)})  # type: ignore[type-var]
    return made


def check_step(fault: Fault) -> None:
    """Raises UsageError if the trigger names a step that is too early for the fault."""
    trigger, earliest = fault.trigger, action_traits(fault.action).earliest
    if isinstance(trigger, triggers.AtStep) and trigger.step < earliest:
        raise UsageError(f"{fault}: at_step must be {earliest} or later: step {trigger.step} has none before it")


def resolve_ranks(name: str, ranks: RankSpec, world_size: int) -> tuple[int, ...]:
    """The ranks in a job of `world_size` ranks; raises UsageError for a rank that it does not have."""
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
    for node in action_traits(fault.action).nodes_meant:
        if not -count <= node < count:
            there = "its node is 0" if count == 1 else f"nodes are {', '.join(map(str, range(count)))}"
            raise UsageError(f"{fault.action}: there is no node {node} in {job}; {there}")
        other = named.setdefault(node % count, node)
        if other != node:
            raise UsageError(f"{fault.action}: node {other} and node {node} are the same in {job}; name it once")
