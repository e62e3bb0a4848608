"""The run beside its reference, step by step: where each component and the loss are not what they should be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from chaoskit.reference import Reference, differing
from chaoskit.timeline import Execution, Timeline


@dataclass(frozen=True)
class Difference:
    """One executed step that is not the reference's: `values` maps `loss`, or a component, to what the run had and
    what the reference has. A step past the reference's last one has the value `steps`."""

    execution: Execution
    values: Mapping[str, tuple[str, str]]

    @property
    def order(self) -> tuple[int, int, int]:
        """Earliest first: by incarnation, step and rank."""
        return self.execution.incarnation, self.execution.step, self.execution.rank


@dataclass(frozen=True)
class Comparison:
    """`compared` counts the executed steps that were looked at; `names` is what was compared in them. `absent`
    maps a component that the reference has to the first kept step that lacks it."""

    differences: tuple[Difference, ...] = ()
    compared: int = 0
    names: frozenset[str] = frozenset()
    absent: Mapping[str, Execution] = field(default_factory=dict)


def compare(timeline: Timeline, reference: Reference) -> Comparison:
    """Every executed step, kept or rolled back, of which the true number is known.

    Only what the reference can measure is compared: all of it, or, where the controls differ, the components in
    which they agree.
    """
    differences: list[Difference] = []
    absent: dict[str, Execution] = {}
    names: set[str] = set()
    for one in timeline.executions:
        expected = reference.step(one.rank, one.step)
        if expected is None:
            differences.append(Difference(one, {"steps": ("taken", "not taken")}))
            continue
        record = one.record
        measured = set(expected.components) & timeline.comparable
        if timeline.bitwise and (expected.losses or record.losses):
            measured.add("loss")
        kept = timeline.effective[one.rank, one.step] is one
        present = {*record.components, *(["loss"] if record.losses else [])}
        if kept:
            # The last record of a rank that was killed may be cut short; what was kept has to be whole.
            absent.update({name: one for name in measured - present if name not in absent})
        measured &= present
        values = {name: v for name, v in differing(record, expected).items() if name in measured}
        names |= measured
        if values:
            differences.append(Difference(one, values))
    differences.sort(key=lambda one: one.order)
    return Comparison(tuple(differences), len(timeline.executions), frozenset(names), absent)


def finite(losses: str) -> bool:
    """Whether each of the losses, as `differing` joins them, is a finite number."""
    return all(math.isfinite(float.fromhex(loss)) for loss in losses.split())
