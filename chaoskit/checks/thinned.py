"""Clauses of a verdict on a run whose state was not recorded at every step (`--record-every`)."""

from __future__ import annotations

from chaoskit.analysis.alignment.segment import last_known
from chaoskit.analysis.case import Case
from chaoskit.analysis.comparison import Difference

#: What to do about it.
REMEDY = "to know it, record every step: --record-every 1"


def recorded(compared: int, thin: int) -> str:
    """The clause that says at how many of the compared steps state was recorded; empty if at all of them."""
    if not thin:
        return ""
    seen = compared - thin
    return f"; state was recorded at {seen} of them, losses, learning rates and batches at all (--record-every)"


def last_whole(case: Case, difference: Difference) -> int | None:
    """The last step with recorded state before a step that differs, in the same lifetime; 0 if there is none. The
    difference may have begun in the steps between them. None if it began in the step that differs."""
    one = difference.execution
    return last_known(case.timeline.segments, one.incarnation, one.rank, one.step, names=difference.values)


def or_earlier(case: Case, difference: Difference) -> str:
    """The clause that says since which step the state may have differed; empty if exactly since the step that differs.
    """
    since = last_whole(case, difference)
    if since is None:
        return ""
    return f", or earlier{f', after step {since}' if since else ''}: its state was not recorded there"
