"""`judge`: apply checks to a case; a verdict that depends on an unobserved fault becomes inconclusive."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.analysis.case import Case
from chaoskit.checks.check import Check
from chaoskit.checks.faults_took_effect import faults_took_effect
from chaoskit.checks.resting import unrested
from chaoskit.checks.windowed import named
from chaoskit.verdict import Outcome, Verdict, inconclusive


def judge(case: Case, checks: Sequence[Check]) -> tuple[Verdict, ...]:
    """The verdicts of `checks`, in their order, after that of `faults_took_effect` where the run has faults.

    A check that raises is inconclusive. If no fault of the run was observed, so is every other verdict; if some
    were and some were not, a fail stands and a pass does not. A pass does not stand on a damaged record either, and no
    verdict on what the probe failed to read.
    """
    effect = faults_took_effect()
    asked = list(checks)
    if case.history.faults and not any(check.name == effect.name for check in asked):
        asked.insert(0, effect)
    asked.sort(key=lambda check: check.name != effect.name)
    found = (_qualified(case, _apply(check, case), exempt=check.name == effect.name) for check in asked)
    return tuple(named(case, verdict) for verdict in found)


def _apply(check: Check, case: Case) -> Verdict:
    try:
        return check(case)
    except Exception as error:
        sentence = f"the check itself failed ({type(error).__name__}: {error}); please report this"
        return inconclusive(check.name, sentence, "probe-blind", error=repr(error))


def _qualified(case: Case, verdict: Verdict, *, exempt: bool) -> Verdict:
    faults = case.history.faults
    unseen = [fault.name for fault in faults if fault.observed is None]
    if unseen and not exempt:
        none_seen = len(unseen) == len(faults)
        if none_seen or verdict.outcome is Outcome.PASS:
            sentence = (
                f"'{unseen[0]}' was not observed to take effect, so there is no verdict. Otherwise: "
                f"{verdict.sentence}"
            )
            return inconclusive(verdict.check, sentence, "fault-not-observed", original=verdict.to_json())
    if case.history.gaps and verdict.outcome is Outcome.PASS:
        gap = case.history.gaps[0]
        sentence = f"{gap}, so there is no verdict. Otherwise: {verdict.sentence}"
        return inconclusive(verdict.check, sentence, "probe-blind", original=verdict.to_json())
    return unrested(case, verdict)
