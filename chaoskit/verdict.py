"""`Verdict`: the result of one check on one run, with its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from chaoskit.errors import CODES, WEAKNESSES
from chaoskit.schema import conform


class Outcome(StrEnum):
    """Pass, fail or inconclusive. Inconclusive is not a pass."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim.

    `check` is the name of the check; `sentence` is for people; `codes` are from `errors.CODES`
    (none when the claim passed, at least one otherwise); `evidence` is plain JSON: steps, ranks, files, tables.
    """

    check: str
    outcome: Outcome
    sentence: str
    codes: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = [code for code in self.codes if code not in CODES]
        if unknown:
            raise ValueError(f"unknown diagnosis code {unknown[0]!r}; errors.CODES lists them")
        if (self.outcome is Outcome.PASS) == bool(self.codes):
            raise ValueError(f"{self.check}: a pass carries no code, anything else carries at least one")

    @property
    def weakness(self) -> bool:
        """Whether all that is wrong is a weakness: a guard is missing, and nothing was lost or changed."""
        return self.outcome is Outcome.FAIL and WEAKNESSES.issuperset(self.codes)

    def to_json(self) -> dict[str, Any]:
        """Return the form stored in `verdicts.json`; `weakness` is there where it is true."""
        return {
            **({"weakness": True} if self.weakness else {}),
            "check": self.check,
            "outcome": self.outcome.value,
            "codes": list(self.codes),
            "sentence": self.sentence,
            "evidence": dict(self.evidence),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_json`; raises ValueError, which names the field, on anything else."""
        return conform(cls, data)


def passed(check: str, sentence: str, **evidence: Any) -> Verdict:
    """Make a verdict that passes."""
    return Verdict(check, Outcome.PASS, sentence, (), evidence)


def failed(check: str, sentence: str, *codes: str, **evidence: Any) -> Verdict:
    """Make a verdict that fails, with its diagnosis codes, the most specific one first."""
    return Verdict(check, Outcome.FAIL, sentence, codes, evidence)


def inconclusive(check: str, sentence: str, *codes: str, **evidence: Any) -> Verdict:
    """Make an inconclusive verdict: the evidence is not sufficient for pass or fail."""
    return Verdict(check, Outcome.INCONCLUSIVE, sentence, codes, evidence)


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """Combine outcomes: fail outranks inconclusive, which outranks pass; inconclusive if there are none."""
    seen = set(outcomes)
    for outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS):
        if outcome in seen:
            return outcome
    return Outcome.INCONCLUSIVE
