"""Shared by the checks of corrupted numbers: require a corruption, and merge the verdicts on several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.corruption.injected import is_corruption
from chaoskit.analysis.corruption.propagation import Propagation
from chaoskit.analysis.record.history import lifetimes
from chaoskit.checks.check import unmeasured
from chaoskit.checks.explanation import facts
from chaoskit.checks.thinned import REMEDY
from chaoskit.verdict import Verdict, inconclusive, merge


def judge_each(name: str, case: Case, judge: Callable[[Propagation], Verdict]) -> Verdict:
    """Return the verdict of the check `name` on every number that a fault corrupted: the worst one, with the evidence
    of all."""
    if (unknown := unmeasured(name, case)) is not None:
        return unknown
    struck = [fault for fault in case.history.faults if is_corruption(fault)]
    if not struck:
        return inconclusive(name, "no fault was observed to corrupt a number", "fault-not-observed")
    if len(case.propagations) < len(struck):
        return inconclusive(name, "the step in which a number was corrupted is unknown", "probe-blind")
    first = min(propagation.corruption.incarnation for propagation in case.propagations)
    if any(lifetime.steps.thin for inc, lifetime in lifetimes(case.history) if inc.index >= first):
        # What a number changed, and whether an update was left out, shows from one step to the next.
        sentence = f"state was not recorded at every step, so what the corrupted number changed is unknown; {REMEDY}"
        return inconclusive(name, sentence, "probe-blind")
    verdicts = [judge(propagation) for propagation in case.propagations]
    outcome = merge(verdict.outcome for verdict in verdicts)
    worst = [verdict for verdict in verdicts if verdict.outcome is outcome]
    evidence: dict[str, Any] = {"corruptions": [facts(propagation) for propagation in case.propagations]}
    for verdict in reversed(verdicts):
        evidence.update(verdict.evidence)
    return Verdict(
        name,
        outcome,
        "; ".join(dict.fromkeys(verdict.sentence for verdict in worst)),
        tuple(dict.fromkeys(code for verdict in worst for code in verdict.codes)),
        evidence,
    )


def faded(name: str, case: Case, propagation: Propagation) -> Verdict | None:
    """Return the verdict on a corruption that had no known effect; None if it had one."""
    if (
        propagation.detection is not None
        or propagation.nonfinite
        or (propagation.off and not propagation.diverged_before)
    ):
        return None
    if propagation.diverged_before:
        why = "the run had already diverged from the reference, so no later difference can be attributed to this"
        return inconclusive(name, f"{propagation.corruption}; {why}", "probe-blind")
    if not case.timeline.bitwise:
        why = "the job is not deterministic, so the effect is unknown"
        return inconclusive(name, f"{propagation.corruption}; {why}", "not-deterministic")
    why = "nothing ever differed from the reference: the change had no effect, so nothing was tested"
    return inconclusive(name, f"{propagation.corruption}; {why}", "fault-not-observed")
