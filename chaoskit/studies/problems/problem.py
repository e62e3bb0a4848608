"""`Problem`: one cause, shown by some experiments. `Proof`: a run in which the lost state was put back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from chaoskit.errors import FAMILIES
from chaoskit.schema import conform

#: Families of codes that name a component, which can be put back.
HELD = ("state", "data")


@dataclass(frozen=True)
class Proof:
    """What an intervention showed. In a further run of an experiment chaoskit put the lost components back.

    `outcome` is `proven` (the run was exact, so nothing else is lost), `more-lost` (it was not: `codes` are what
    remains) or `impossible` (the components cannot be put back: `sentence` says why). `put_back` are the components,
    `experiment` the experiment that was repeated, `run` the directory of that run.
    """

    outcome: Literal["proven", "more-lost", "impossible"]
    sentence: str
    put_back: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    experiment: str = ""
    run: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Proof:
        """The inverse of `asdict`, by way of JSON. Raises ValueError, naming the field."""
        return conform(cls, data)


@dataclass(frozen=True)
class Problem:
    """One cause. `code` names it, `sentence` says what happened, `advice` what to change.

    `shown_by` are the experiments that show it, the smallest first; `run` is the stored run of that one and `repeat`
    the command that repeats it. `consequences` are the codes that follow from this cause in those experiments. A
    `weakness` is a guard that is missing: nothing was lost or changed. `proof` is None where none was tried.
    """

    code: str
    sentence: str
    advice: str
    shown_by: tuple[str, ...]
    weakness: bool = False
    consequences: tuple[str, ...] = ()
    run: str = ""
    repeat: str = ""
    proof: Proof | None = None

    @property
    def lost_state(self) -> bool:
        """Whether it names state that was lost."""
        return not self.weakness and FAMILIES.get(self.code) in HELD

    @property
    def provable(self) -> bool:
        """Whether that was in a stored run, so that a further run can put the state back."""
        return self.lost_state and Path(self.run).parent.name == "runs"

    @property
    def to_prove(self) -> str:
        """The command that tries to prove it; empty where that was tried, or cannot be."""
        return f"chaoskit prove {shlex.quote(self.run)}" if self.provable and self.proof is None else ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Problem:
        """The inverse of `to_json`. Raises ValueError, naming the field."""
        return conform(cls, data)
