"""`CodedFinding`: one code of one experiment with its own sentence; `findings_of` makes them of verdicts.

A verdict may carry several codes and has one sentence for all of them. People act on one cause at a time: each code
gets the sentence that belongs to it, and the code that it follows from, if the evidence tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from chaoskit.engine.code_sentences import position_of, sentence_of
from chaoskit.engine.consequences import causes_of
from chaoskit.engine.weaknesses import is_weakness
from chaoskit.errors import CODES, FAMILIES, WEAKNESSES
from chaoskit.remedies import REMEDIES
from chaoskit.verdict import Verdict, failed

#: The checks that tell most about a kind of code come first; others follow in the order in which they were applied.
_TELLING = ("state_restored", "same_data", "samples_exactly_once")
#: The same for numbers that are not finite, and for those that differ from rank to rank.
_OF_NUMBERS = ("replicas_agree", "detected_within", "stays_finite")


@dataclass(frozen=True)
class CodedFinding:
    """`code` was found by `check`; `sentence` is about this code alone, `advice` says what to change.

    `follows` is the code of the same experiment that this one is a consequence of, empty for a cause. `weakness`: a
    guard is missing, and nothing was lost or changed. `at` is the step of the reference that the component stands at,
    None if it is at no step or that is not known.
    """

    code: str
    sentence: str
    check: str = ""
    advice: str = ""
    weakness: bool = False
    follows: str = ""
    at: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        return asdict(self)


def findings_of(verdicts: Sequence[Verdict], kinds: Collection[str] = ()) -> tuple[CodedFinding, ...]:
    """The findings of the verdicts that decide one run, each code once. Those that passed are given, too: they have
    evidence and no code. `kinds` are those of the faults that took effect."""
    causes = causes_of(verdicts, kinds)
    found: dict[str, CodedFinding] = {}
    for code in dict.fromkeys(code for verdict in verdicts for code in verdict.codes):
        telling = sorted(verdicts, key=lambda one: _place(code, one.check))
        verdict = next(one for one in telling if code in one.codes)
        advice = next((text for one in telling if (text := one.evidence.get("advice", {}).get(code))), "")
        found[code] = CodedFinding(
            code,
            sentence_of(code, verdict, verdicts),
            verdict.check,
            advice or REMEDIES.get(code, ""),
            is_weakness(code, verdicts, kinds),
            causes.get(code, ""),
            position_of(code, verdicts),
        )
    return tuple(found.values())


def of_many_runs(found: Iterable[Sequence[CodedFinding]]) -> tuple[CodedFinding, ...]:
    """The findings of an experiment with several runs: a code that is a cause in one of them is a cause."""
    merged: dict[str, CodedFinding] = {}
    for own in found:
        for one in own:
            known = merged.setdefault(one.code, one)
            # What it is in the worst of them: a consequence, a weakness, a problem.
            if (not one.follows, not one.weakness) > (not known.follows, not known.weakness):
                merged[one.code] = one
    return tuple(merged.values())


def of_codes(
    codes: Sequence[str], sentences: Sequence[str], advice: Mapping[str, str], *, weakness: bool = False
) -> tuple[CodedFinding, ...]:
    """The findings of a result that was stored without them: the codes alone say what follows from what."""
    alone = sentences[0] if len(codes) == 1 and sentences else ""
    bare = [CodedFinding(code, alone or CODES.get(code, code), advice=advice.get(code, "")) for code in codes]
    known = [code for code in codes if code in CODES]
    causes = causes_of([failed("", "", *known)]) if known else {}
    return tuple(
        replace(
            one,
            advice=one.advice or REMEDIES.get(one.code, ""),
            weakness=weakness or one.code in WEAKNESSES,
            follows=causes.get(one.code, ""),
        )
        for one in bare
    )


def _place(code: str, check: str) -> int:
    family = FAMILIES.get(code)
    order = _TELLING if family in ("state", "data") else _OF_NUMBERS if family == "trajectory" else ("completed",)
    return order.index(check) if check in order else len(order)
