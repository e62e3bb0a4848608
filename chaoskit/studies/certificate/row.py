"""`Row`: a claim about a job and the evidence that it takes. `RowState`: what the evidence comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chaoskit.schema import conform

State = Literal["proven", "failed", "accepted", "not-tested", "not-applicable"]
#: The states as people read them.
STATES: dict[State, str] = {
    "proven": "proven",
    "failed": "failed",
    "accepted": "accepted",
    "not-tested": "not tested",
    "not-applicable": "does not apply",
}


@dataclass(frozen=True)
class Need:
    """Experiments of the battery ('test_resume.py::test_resume') whose runs must pass these checks. A name that ends
    with `[*]` stands for every parameter that ran, of which there must be one. `least` is how many of the experiments
    must be proven (None: all of them)."""

    experiments: tuple[str, ...]
    checks: tuple[str, ...]
    least: int | None = None


@dataclass(frozen=True)
class Row:
    """A row of the checklist. All `needs` must be met. `how` says how to test it where it was not.

    `codes` are those that refute the claim (empty: every code of the checks). `components` are those of
    `state_restored` that the row is about; a component of which a job has none makes the row not apply, unless it is
    `required`. `measure` names a function of `measures` that gives further evidence. `figures` are fields of a result
    that the row shows, the largest of all its runs; without a `figure_needed` it is not proven. `only_if` names a
    condition on the job.
    """

    id: str
    title: str
    claim: str
    how: str
    needs: tuple[Need, ...] = ()
    codes: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    required: bool = False
    measure: str = ""
    figures: tuple[str, ...] = ()
    figure_needed: str = ""
    only_if: str = ""


@dataclass(frozen=True)
class RowState:
    """What became of a row. `sentence` says why, `codes` what failed or is accepted, `reasons` why it is accepted, by
    code. `how` is there where the row was not tested. `figures` are measured values by name, in seconds, steps or
    shares. `runs` are the ids of the stored runs that show it, `experiments` the names of their experiments."""

    id: str
    title: str
    claim: str
    state: State
    sentence: str
    how: str = ""
    codes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    experiments: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The state as people read it."""
        return STATES[self.state]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        lists = ("codes", "experiments", "runs")
        return {
            **self.__dict__, **{name: list(getattr(self, name)) for name in lists},
            "reasons": dict(self.reasons), "figures": dict(self.figures),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RowState:
        """The inverse of `to_json`; raises ValueError, naming the field."""
        return conform(cls, data)
