"""`CorruptNumber`: the action of all faults that make a number of the training wrong, on a rank, at a step.

Each fault is a change (`nan`, `bitflip`, `scale`, ...) of a target (`chaoskit.protocol.targets`). The rank receives
the order at its gate, changes the number itself, and reports the values before and after, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from chaoskit.capabilities import CanCorruptNumbers
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, RankSpec, resolve_ranks, show_ranks
from chaoskit.protocol.targets import InjectionTarget, as_target, loss
from chaoskit.validation import check_flag, check_number, check_numbered, check_whole, is_all

#: How many elements of a tensor are changed.
Elements = int | Literal["all"]

#: Targets that hold one number.
_SINGLE = ("loss", "scaler", "lr")


@dataclass(frozen=True, kw_only=True)
class CorruptNumber:
    """Change the numbers of a target. `name` is the function that made the fault, `how` the change (its `kind` and
    the function's own arguments), and `text` says what it does to `{}`.
    """

    name: str
    text: str
    rank: RankSpec
    into: InjectionTarget
    how: Mapping[str, Any]
    elements: Elements
    steps: int | None
    again: bool
    seed: int
    needs = (CanCorruptNumbers,)
    heal_after = None
    heal_launches = None
    # It takes effect in the next step or the one after; a rank that does not come to it is gone.
    holds = False
    observe_within = float("inf")
    apart = True
    names = 20

    @property
    def earliest(self) -> int:
        """The first step that can be struck: `stale` repeats the numbers of the step before."""
        return 2 if self._stale else 1

    @property
    def ahead(self) -> int:
        """How many steps before it strikes a rank receives the order. Ranks receive orders between steps, so a
        fault inside a step needs one step, and `stale` one more, in which the rank keeps the numbers to repeat.
        """
        return (not self.into.held) + self._stale

    @property
    def _stale(self) -> bool:
        return bool(self.how["kind"] == "stale")

    def victims(self, world_size: int) -> Sequence[int]:
        return resolve_ranks(self.name, self.rank, world_size)

    def apply(self, env: CanCorruptNumbers, world_size: int) -> Mapping[str, Any]:
        applied: Mapping[str, Any] = {}
        for rank in self.victims(world_size):
            applied = self.strike(env, rank, applied)
        return applied

    def strike(self, env: CanCorruptNumbers, rank: int, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `PerRank`."""
        order = {
            "do": "corrupt",
            "into": self.into.to_json(),
            "how": dict(self.how),
            "elements": self.elements,
            "steps": self.steps,
            "seed": self.seed,
        }
        orders = [*applied.get("orders", ()), [rank, env.corrupt(rank, order)]]
        return {"rank": orders[0][0], "orders": orders}

    def observed(self, env: CanCorruptNumbers, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        reports = [env.corrupted(rank, number) for rank, number in applied["orders"]]
        known = [each for each in reports if each is not None]
        if len(known) < len(reports):
            return None
        refused = [
            {"rank": rank, "why": each["refused"]}
            for (rank, _), each in zip(applied["orders"], known, strict=True)
            if "refused" in each
        ]
        changed = [dict(each) for each in known if "refused" not in each]
        if not changed:
            raise LookupError("; ".join(dict.fromkeys(each["why"] for each in refused)))
        more = {"others": changed[1:], "refused": refused}
        return {**changed[0], **{name: value for name, value in more.items() if value}}

    def heal(self, env: CanCorruptNumbers, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.name,
            "rank": list(self.rank) if isinstance(self.rank, tuple) else self.rank,
            "into": self.into.to_json(),
            **{name: value for name, value in self.how.items() if name != "kind"},
            "elements": self.elements,
            "steps": self.steps,
            "again": self.again,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        what = self.into.phrase
        if self.elements != "all" and self.into.kind not in _SINGLE:
            what = f"{'an element' if self.elements == 1 else f'{self.elements} elements'} of {what}"
        lasts = "" if self.steps == 1 else "from then on" if self.steps is None else f"for {self.steps} steps"
        limits = ", ".join(filter(None, (lasts, "every time" if self.again else "")))
        return f"{self.text.format(what)} on {show_ranks(self.rank)}{f' ({limits})' if limits else ''}"


class NumberOptions(TypedDict, total=False):
    """The arguments that all these faults have, besides `rank`.

    `into` is the target: where the number is (the loss unless given, or the only one that the fault allows).
    `elements` of a tensor are changed, drawn by `seed`, or 'all'. The fault lasts `steps` steps in a row (None:
    until the process ends). With `again` it strikes whenever the job comes to that step again, after a rollback or
    a restart.
    """

    into: InjectionTarget | str | None
    elements: Elements | None
    steps: int | None
    again: bool
    seed: int


def corrupt_number(
    name: str,
    text: str,
    how: Mapping[str, Any],
    *,
    rank: RankSpec,
    into: InjectionTarget | str | None = None,
    elements: Elements | None = None,
    default: Elements = "all",
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
    only: str | None = None,
) -> Fault:
    """The fault of that name: see `CorruptNumber` and `NumberOptions`.

    `default` elements are changed unless `elements` says otherwise. `only` is the one kind of target that the fault
    allows. Raises UsageError for arguments that are not valid.
    """
    check_numbered(name, "rank", rank)
    target = as_target(into) if into is not None else InjectionTarget(only) if only is not None else loss()
    if only is not None and target.kind != only:
        raise UsageError(f"{name}: into can only be {only}, not {target}")
    elements = default if elements is None else elements
    if not is_all(elements):
        check_whole(name, "elements", elements, least=1, also="'all'")
    if steps is not None:
        check_whole(name, "steps", steps, least=1, also="None: until the process ends")
    return Fault(
        CorruptNumber(
            name=name,
            text=text,
            rank=rank,
            into=target,
            how=how,
            elements=elements,
            steps=steps,
            again=check_flag(name, "again", again),
            seed=check_whole(name, "seed", seed),
        )
    )


def check_factor(name: str, factor: Any) -> float:
    """A finite number other than 1, which would change nothing; raises UsageError for anything else."""
    number = check_number(name, "factor", factor)
    if number == 1:
        raise UsageError(f"{name}: factor must not be 1, which changes nothing")
    return number
