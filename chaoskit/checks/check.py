"""`Check`: one claim about a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.history import lifetimes
from chaoskit.verdict import Verdict, inconclusive


class Check(Protocol):
    """Make one claim. A check is a pure function of the case: it uses no process, clock or file."""

    @property
    def name(self) -> str: ...
    def __call__(self, case: Case) -> Verdict: ...
    def to_json(self) -> Mapping[str, Any]: ...


def unmeasured(name: str, case: Case) -> Verdict | None:
    """Return the verdict of a check that needs a reference and recorded steps, if one of them is missing."""
    if case.reference is None:
        return inconclusive(name, "there is no reference to compare with", "reference-failed")
    if not case.timeline.starts:
        errors = [error for _, lifetime in lifetimes(case.history) for error in lifetime.errors]
        why = f": {errors[0]}" if errors else ""
        # A job that never stepped is for `completed` to judge; here there is nothing to look at.
        return inconclusive(
            name, f"the probe recorded no optimizer step of the run{why}", "probe-blind", errors=errors
        )
    return None
