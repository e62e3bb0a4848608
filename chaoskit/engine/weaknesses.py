"""Weaknesses: what fails because a guard is missing, while nothing was lost and the training did not change by itself.

The line between a problem and a weakness is drawn here and nowhere else; docs/explanation/verdicts.md explains it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chaoskit.errors import WEAKNESSES
from chaoskit.verdict import Verdict

#: Kinds of faults that put a wrong number into the training. What the training makes of it is no fault of the job's;
#: a job without a guard against it takes it in.
NUMBERS = frozenset({"nan", "inf", "bad_batch", "bitflip", "lr_spike", "noise", "scale", "stale", "stuck", "zero"})
#: The codes of a job that takes such a number in.
TAKEN_IN = frozenset(
    {"nonfinite-accepted", "poisoned-checkpoint", "corruption-accepted", "corruption-saved", "corruption-spread"}
)


def is_weakness(code: str, verdicts: Sequence[Verdict], kinds: Collection[str]) -> bool:
    """Whether a code of these verdicts is a weakness, by the faults (`kinds`) that took effect in the run."""
    if code in WEAKNESSES:
        return True
    if code in TAKEN_IN:
        return not NUMBERS.isdisjoint(kinds)
    if code == "restarted-from-scratch":
        return "hide" in kinds or _nothing_was_left(verdicts)
    return False


def _nothing_was_left(verdicts: Sequence[Verdict]) -> bool:
    """Whether every restart from scratch came when no checkpoint was valid any more: only the check that knows what a
    fault had damaged objects."""
    return all(
        verdict.check == "falls_back_to_last_valid"
        for verdict in verdicts
        if "restarted-from-scratch" in verdict.codes
    )
