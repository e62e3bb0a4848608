"""`Headline`: the verdict on a run in one sentence, with its diagnosis codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.steps import readable
from chaoskit.analysis.recovery.recovery import Recovery
from chaoskit.engine.code_sentences import capital
from chaoskit.engine.result import without_repeats
from chaoskit.errors import CODES
from chaoskit.verdict import Outcome, Verdict, merge

#: Causes come before consequences: the verdict with the first of these codes gives the headline.
_CAUSES = (
    "corrupt-accepted", "checkpoint-unfaithful", "torn-checkpoint", "checkpoint-lost", "restarted-from-scratch",
    "stale-checkpoint",
    "nonfinite-accepted", "poisoned-checkpoint", "corruption-accepted", "corruption-saved", "corruption-spread",
)  # fmt: skip
#: Checks that compare the training with the reference, the strictest first.
_COMPARING = ("matches_reference", "returned_to_reference")
ORDER: Mapping[str, int] = {code: rank for rank, code in enumerate(dict.fromkeys((*_CAUSES, *CODES)))}
#: How a run ended, in words.
ENDS = {
    "finished": "the job finished", "gave-up": "the job used up its relaunches",
    "hang": "the job hung", "deadline": "the job did not finish before its deadline",
    "interrupted": "the run was interrupted",
}  # fmt: skip
#: The same for a record without an end.
NO_END = "the record is incomplete because chaoskit was killed or is still running"


@dataclass(frozen=True)
class Headline:
    """`sentence` is the headline, `more` are the sentences of further failed checks. `outcome` is None without
    verdicts."""

    outcome: Outcome | None
    sentence: str
    codes: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


def headline(case: Case, verdicts: Sequence[Verdict] | None) -> Headline:
    """Make the headline of a run; `verdicts` is None if none are stored."""
    if not verdicts:
        end = ENDS.get(case.history.end or "", NO_END)
        return Headline(None, f"This run has no verdicts, because no check was applied to it; {end}.")
    outcome = merge(verdict.outcome for verdict in verdicts)
    if outcome is Outcome.PASS:
        return Headline(outcome, _sentence(_proved(case, verdicts)))
    worst = sorted((one for one in verdicts if one.outcome is outcome), key=_priority)
    codes = tuple(sorted(dict.fromkeys(code for one in worst for code in one.codes), key=lambda c: ORDER[c]))
    first, *others = without_repeats([one.sentence for one in worst])
    return Headline(outcome, _sentence(first), codes, tuple(map(_sentence, others)))


def _priority(verdict: Verdict) -> int:
    return min((ORDER[code] for code in verdict.codes), default=len(ORDER))


def _sentence(text: str) -> str:
    return capital(readable(text))


def _proved(case: Case, verdicts: Sequence[Verdict]) -> str:
    """Say which faults were injected, how the job recovered, and what the checks proved."""
    recovered = "; ".join(_survived(one) for one in case.recoveries)
    return f"{recovered or 'no fault was injected into this run'}; {_equal(case, verdicts)}"


def _survived(one: Recovery) -> str:
    if one.ridden_out:
        waited = f" and took its next step after {one.recovery_seconds:.1f} s" if one.recovery_seconds else ""
        return f"the job survived '{one.name}' without a restart{waited}"
    if one.resumed_from is None:
        return f"'{one.name}' took effect"
    return f"after '{one.name}' the job {', '.join(_resumed(one))}"


def _resumed(one: Recovery) -> Iterator[str]:
    if one.resumed_from == 0:
        yield "restarted from step 0, because there was no valid checkpoint"
    else:
        valid = ", its last valid checkpoint" if one.resumed_from == one.last_valid else ""
        yield f"resumed from step {one.resumed_from}{valid}"
    if one.steps_lost is not None:
        yield f"lost {one.steps_lost or 'no'} step{'' if one.steps_lost == 1 else 's'}"
    if one.recovery_seconds is not None:
        yield f"and recovered in {one.recovery_seconds:.1f} s"


def _equal(case: Case, verdicts: Sequence[Verdict]) -> str:
    """Say what the checks proved about the training."""
    comparing = [one for name in _COMPARING for one in verdicts if one.check == name]
    compared = comparing[0] if comparing else None
    if compared is None:
        count = len(verdicts)
        return f"{'the check' if count == 1 else f'all {count} checks'} passed"
    if compared.check == _COMPARING[0] and case.timeline.bitwise and not case.timeline.resized:
        last = case.timeline.highest()
        return f"the training is bitwise equal to the uninterrupted run up to step {last}"
    return compared.sentence
