"""`ranked`: a random stream that was not restored, and on which nothing depends, is a weakness and no loss.

That can be said once the run has come to its end: the stream was drawn from after the resume, and all the same every
loss, every batch and all other state were those of the reference. It can always be said where the reference shows that
nobody uses what is drawn from the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from chaoskit.analysis.case import Case
from chaoskit.analysis.finding import Finding
from chaoskit.analysis.record.steps import LOSS

#: Without these nothing is known of what the training consumed and made.
NEEDED = frozenset({LOSS, "batch", "model"})


def ranked(case: Case, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, with a code of their own for streams that nothing depends on."""
    assert case.reference is not None
    known = [
        replace(one, code="rng-unused-not-restored", idle=True)
        if one.code == "rng-not-restored" and case.reference.is_idle(one.rank, one.component)
        else one
        for one in findings
    ]
    reached = min((case.timeline.highest(rank) for rank in range(case.reference.world_size)), default=0)
    if not case.timeline.bitwise or case.timeline.resized or reached < case.reference.steps:
        return known
    if not case.comparison.names >= NEEDED or case.comparison.absent:
        return known
    apart = {incarnation for incarnation, _, name in case.comparison.first if not name.startswith("rng.")}
    apart |= {one.execution.incarnation for one in case.comparison.differences if "steps" in one.values}
    apart |= {one.incarnation for one in known if one.family != "rng"}
    return [
        replace(one, code="rng-unused-not-restored", harmless=case.reference.steps)
        if one.family == "rng" and all(each < one.incarnation for each in apart) and _was_drawn_from(case, one)
        else one
        for one in known
    ]


def _was_drawn_from(case: Case, finding: Finding) -> bool:
    """Whether the reference draws from the stream after that step: one that is only drawn from to shuffle the next
    epoch has had no chance to do harm yet."""
    assert case.reference is not None
    column = dict(case.reference.traces())[finding.rank].column(finding.component)
    return column is not None and len(set(column[finding.step - 1 :])) > 1
