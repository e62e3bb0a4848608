"""`Corruption`: the action of all faults that make a number of the training wrong, on a rank, at a step.

Each of them is a change (`nan`, `bitflip`, `scale`, ...) put into a place (`chaoskit.places`). The rank does it to
itself, as it is ordered at its gate, and says what it has changed: the numbers before and after, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chaoskit.capabilities import CanCorruptNumbers
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, RankSpec, check_ranks, resolve_ranks, show_ranks
from chaoskit.places import Place, loss, place

#: How many elements of a tensor are changed.
Elements = int | Literal["all"]

#: Places that hold one number.
_SINGLE = ("loss", "scaler", "lr")


@dataclass(frozen=True, kw_only=True)
class Corruption:
    """A change into a place. `name` is the function that made it, `how` the change, its `kind` and the function's own
    arguments, and `text` what it does to `{}`."""

    name: str
    text: str
    rank: RankSpec
    into: Place
    how: Mapping[str, Any]
    elements: Elements
    steps: int | None
    again: bool
    seed: int
    needs = (CanCorruptNumbers,)
    heal_after = None
    heal_launches = None
    #: It shows in the step to come, or in the one after that, and a rank that will not come to it is gone.
    holds = False
    observe_within = float("inf")
    apart = True
    names = 20

    @property
    def earliest(self) -> int:
        """The first step that can be struck: what is to be repeated must have been there before."""
        return 2 if self._stale else 1

    @property
    def ahead(self) -> int:
        """Ranks take orders when a step has been computed: what is to strike in the middle of one is handed over in
        the step before, and what is to be repeated one more step ahead, so that it can be kept."""
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
        """See `Apart`."""
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
        said = [env.corrupted(rank, number) for rank, number in applied["orders"]]
        told = [each for each in said if each is not None]
        if len(told) < len(said):
            return None
        refused = [
            {"rank": rank, "why": each["refused"]}
            for (rank, _), each in zip(applied["orders"], told, strict=True)
            if "refused" in each
        ]
        changed = [dict(each) for each in told if "refused" not in each]
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
        told = ", ".join(filter(None, (lasts, "every time" if self.again else "")))
        return f"{self.text.format(what)} on {show_ranks(self.rank)}{f' ({told})' if told else ''}"


def corruption(
    name: str,
    text: str,
    *,
    rank: RankSpec,
    into: Place | str | None,
    how: Mapping[str, Any],
    elements: Elements,
    steps: int | None,
    again: bool,
    seed: int,
    only: str | None = None,
) -> Fault:
    """The fault of that name; raises UsageError for arguments that cannot be.

    `into` is the loss unless told otherwise, or the only place that the change can be put into.
    """
    check_ranks(name, rank)
    where = place(into) if into is not None else Place(only) if only is not None else loss()
    if only is not None and where.kind != only:
        raise UsageError(f"{name}: into can only be {only}, not {where}")
    if elements != "all":
        check_whole(name, "elements", elements, also="'all'")
    if steps is not None:
        check_whole(name, "steps", steps, also="None: until the process ends")
    if not isinstance(again, bool):
        raise UsageError(f"{name}: again must be True or False, not {again!r}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageError(f"{name}: seed must be a whole number, not {seed!r}")
    made = Corruption(
        name=name,
        text=text,
        rank=rank,
        into=where,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
    return Fault(made)


def check_whole(
    name: str, argument: str, value: Any, *, least: int = 1, most: int | None = None, also: str = ""
) -> None:
    """Raises UsageError unless `value` is a whole number from `least` up to `most`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < least
        or (most is not None and value > most)
    ):
        upto = f" to {most}" if most is not None else ""
        other = f" (or {also})" if also else ""
        raise UsageError(f"{name}: {argument} must be a whole number from {least}{upto}{other}, not {value!r}")


def check_factor(name: str, factor: Any) -> float:
    """`factor`, unless it is no finite number, or 1, which changes nothing: that raises UsageError."""
    number = check_finite(name, "factor", factor)
    if number == 1:
        raise UsageError(f"{name}: factor must not be 1, which changes nothing")
    return number


def check_finite(name: str, argument: str, value: Any) -> float:
    """`value`, unless it is no finite number: that raises UsageError."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not abs(value) < float("inf"):
        raise UsageError(f"{name}: {argument} must be a finite number, not {value!r}")
    return float(value)
