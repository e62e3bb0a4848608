"""What the checks of corrupted numbers share: that there was one, and one verdict of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaoskit.checks.check import Case, unmeasured
from chaoskit.checks.explanation import facts
from chaoskit.corruption import is_corruption
from chaoskit.course import Course
from chaoskit.verdict import Verdict, inconclusive, merge


def judge_each(name: str, case: Case, judge: Callable[[Course], Verdict]) -> Verdict:
    """The verdict of the check `name` on every number that a fault corrupted: the worst, with what each says."""
    if (unknown := unmeasured(name, case)) is not None:
        return unknown
    struck = [fault for fault in case.history.faults if is_corruption(fault)]
    if not struck:
        return inconclusive(name, "no number was seen to be corrupted", "fault-not-observed")
    if len(case.courses) < len(struck):
        return inconclusive(name, "in which step a number was corrupted is not known", "probe-blind")
    verdicts = [judge(course) for course in case.courses]
    outcome = merge(verdict.outcome for verdict in verdicts)
    told = [verdict for verdict in verdicts if verdict.outcome is outcome]
    evidence: dict[str, Any] = {"corruptions": [facts(course) for course in case.courses]}
    for verdict in reversed(verdicts):
        evidence.update(verdict.evidence)
    return Verdict(
        name,
        outcome,
        "; ".join(dict.fromkeys(verdict.sentence for verdict in told)),
        tuple(dict.fromkeys(code for verdict in told for code in verdict.codes)),
        evidence,
    )


def faded(name: str, case: Case, course: Course) -> Verdict | None:
    """The verdict where nothing came of a corruption, as far as can be told; None where something did."""
    if course.detection is not None or course.nonfinite or (course.off and not course.parted):
        return None
    if course.parted:
        why = "the run had left the reference before, so that nothing can be laid to this"
        return inconclusive(name, f"{course.corruption}; {why}", "probe-blind")
    if not case.timeline.bitwise:
        why = "the job is not deterministic, so that what came of it cannot be told"
        return inconclusive(name, f"{course.corruption}; {why}", "not-deterministic")
    why = "nothing ever differed from the reference: it faded, and nothing was tested"
    return inconclusive(name, f"{course.corruption}, and {why}", "fault-not-observed")
