"""`Headline`: the verdict on a run in one sentence, with its codes: what was done and proved, or what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaoskit.checks.check import Case
from chaoskit.errors import CODES
from chaoskit.recovery import Recovery
from chaoskit.results import without_repeats
from chaoskit.verdict import Outcome, Verdict, merge

#: The codes that tell what was lost, and then those that tell what came of it: the first ones lead.
_CAUSES = (
    "corrupt-accepted", "torn-checkpoint", "checkpoint-lost", "restarted-from-scratch", "stale-checkpoint",
    "nonfinite-accepted", "poisoned-checkpoint", "corruption-accepted", "corruption-saved", "corruption-spread",
)  # fmt: skip
#: Checks that say what became of the training itself, the strictest first.
_COMPARING = ("matches_reference", "returned_to_reference")
ORDER: Mapping[str, int] = {code: place for place, code in enumerate(dict.fromkeys((*_CAUSES, *CODES)))}
#: As `float.hex` writes it.
_HEX = re.compile(r"-?\b0x[01]\.[0-9a-f]+p[+-]\d{1,4}\b")
#: What a run without an end came to.
ENDS = {
    "finished": "the job came to its end", "gave-up": "its relaunches were used up", "deadline": "its deadline came",
    "interrupted": "it was interrupted",
}  # fmt: skip


@dataclass(frozen=True)
class Headline:
    """`sentence` leads, `more` are further sentences that failed. `outcome` is None where nothing was judged."""

    outcome: Outcome | None
    sentence: str
    codes: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


def headline(case: Case, verdicts: Sequence[Verdict] | None) -> Headline:
    """The headline of a run; `verdicts` is None where none are stored."""
    if not verdicts:
        end = ENDS.get(case.history.end or "", "its record has no end: chaoskit itself died or was stopped")
        return Headline(None, f"Nothing was judged here: no verdicts are stored with this run; {end}.")
    outcome = merge(verdict.outcome for verdict in verdicts)
    if outcome is Outcome.PASS:
        return Headline(outcome, _sentence(_proved(case, verdicts)))
    telling = sorted((one for one in verdicts if one.outcome is outcome), key=_place)
    codes = tuple(sorted(dict.fromkeys(code for one in telling for code in one.codes), key=lambda c: ORDER[c]))
    first, *others = without_repeats([one.sentence for one in telling])
    return Headline(outcome, _sentence(first), codes, tuple(map(_sentence, others)))


def _place(verdict: Verdict) -> int:
    return min((ORDER[code] for code in verdict.codes), default=len(ORDER))


def _sentence(text: str) -> str:
    text = readable(text.strip())
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?', '…')) else '.'}"


def readable(text: str) -> str:
    """The same with numbers that are told to the bit ('0x1.8p+1') as decimals ('3'), in as many digits as tell them
    apart."""
    exact = set(_HEX.findall(text))
    short = {one: f"{float.fromhex(one):.6g}" for one in exact}
    if len(set(short.values())) < len(exact):
        short = {one: repr(float.fromhex(one)) for one in exact}
    return _HEX.sub(lambda found: short[found[0]], text)


def _proved(case: Case, verdicts: Sequence[Verdict]) -> str:
    """What was done to the job, what it did, and what that proves."""
    told = "; ".join(_survived(one) for one in case.recoveries)
    if not told:
        return f"no fault struck this run; {_equal(case, verdicts)}"
    return f"{told}; {_equal(case, verdicts)}"


def _survived(one: Recovery) -> str:
    if one.ridden_out:
        waited = f" and took its next step after {one.recovery_seconds:.1f} s" if one.recovery_seconds else ""
        return f"the job rode out '{one.name}'{waited}"
    if one.resumed_from is None:
        return f"'{one.name}' was seen to take effect"
    return f"after '{one.name}' the job {', '.join(_resumed(one))}"


def _resumed(one: Recovery) -> Iterator[str]:
    if one.resumed_from == 0:
        yield "began again at its first step, as there was no valid checkpoint"
    else:
        valid = ", its last valid checkpoint" if one.resumed_from == one.last_valid else ""
        yield f"resumed from step {one.resumed_from}{valid}"
    if one.steps_lost is not None:
        yield f"lost {one.steps_lost or 'no'} step{'' if one.steps_lost == 1 else 's'}"
    if one.recovery_seconds is not None:
        yield f"and was back after {one.recovery_seconds:.1f} s"


def _equal(case: Case, verdicts: Sequence[Verdict]) -> str:
    """What the checks proved of the training."""
    comparing = [one for name in _COMPARING for one in verdicts if one.check == name]
    compared = comparing[0] if comparing else None
    if compared is None:
        count = len(verdicts)
        return f"{'the check' if count == 1 else f'all {count} checks'} passed"
    if compared.check == _COMPARING[0] and case.timeline.bitwise and not case.timeline.resized:
        last = case.timeline.highest()
        return f"it trained exactly as the uninterrupted run did: equal to the bit, to step {last}"
    return compared.sentence
