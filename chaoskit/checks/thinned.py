"""What a verdict says where, with `--record-every`, the state was not recorded at every step."""

from __future__ import annotations

from chaoskit.analysis.alignment.segment import last_known
from chaoskit.analysis.case import Case
from chaoskit.analysis.comparison import Difference

#: What to do about it.
REMEDY = "to know it, record every step: --record-every 1"


def recorded(compared: int, thin: int) -> str:
    """The clause that says of how many of the compared steps the state was seen; empty if of all."""
    if not thin:
        return ""
    seen = compared - thin
    return f"; state was recorded at {seen} of them, losses, learning rates and batches at all (--record-every)"


def last_whole(case: Case, difference: Difference) -> int | None:
    """The last step before one that differs, in the same lifetime, whose state was recorded, where that of the steps in
    between was not and the difference may have begun there; 0 if there is none. None where it began in that step."""
    one = difference.execution
    return last_known(case.timeline.segments, one.incarnation, one.rank, one.step, names=difference.values)


def or_earlier(case: Case, difference: Difference) -> str:
    """The clause that says since when a step may have differed in state; empty if just since then."""
    since = last_whole(case, difference)
    if since is None:
        return ""
    return f", or earlier{f', after step {since}' if since else ''}: its state was not recorded there"
