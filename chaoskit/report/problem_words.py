"""What every report of a suite says of its problems in the same words: counts, weaknesses, proof."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from chaoskit.engine.result import ERROR, SKIPPED, UNRUN, WORDS, Result
from chaoskit.studies.problems.problem import Problem

#: Weaknesses in a few words, by their codes.
WEAKNESSES = {
    "nonfinite-accepted": "no guard against NaN",
    "poisoned-checkpoint": "no guard against NaN in checkpoints",
    "corruption-accepted": "no guard against corrupted numbers",
    "corruption-saved": "saves corrupted numbers",
    "corruption-spread": "corrupted numbers spread to other ranks",
    "restarted-from-scratch": "starts from scratch when no checkpoint is there",
    "needless-restart": "does not ride out a short failure",
    "straggler-unnoticed": "does not notice a slow rank",
    "unpickles-freely": "unpickles checkpoints without restriction",
    "rng-unused-not-restored": "a random stream that nothing depends on is not restored",
}
#: How a proof begins.
PROOFS = {"proven": "Proven", "more-lost": "More is lost", "impossible": "Not proven"}
#: In an advice: what stands in parentheses (those of a call have no space before them), and what follows a semicolon.
_ASIDE = re.compile(r" \((?:[^()]|\([^()]*\))*\)")
_FURTHER = re.compile(r";\s.*?(?=\.(?:\s|$))")


def count_line(problems: Sequence[Problem], results: Sequence[Result]) -> str:
    """'3 problems in your job (34 experiments: 29 failed, 4 passed, 1 skipped)'."""
    real = [problem for problem in problems if not problem.weakness]
    verdicts = {result.verdict for result in results} - {SKIPPED}
    told = counted_results(results)
    if verdicts <= {"inconclusive"}:
        return f"Nothing {'could be judged' if verdicts else 'was tested'} ({told})"
    unrun = sum(result.is_unrun for result in results)
    if not real and unrun:
        weak = ", but weaknesses" if "fail" in verdicts else ""
        open_ = ", not all could be judged" if "inconclusive" in verdicts else ""
        return f"No problem found in what ran{weak}{open_}; {counted(unrun, 'experiment')} did not run ({told})"
    if not real and "fail" in verdicts:
        return f"No problem in your job, but weaknesses ({told})"
    if not real and "inconclusive" in verdicts:
        return f"No problem found in your job, but not all could be judged ({told})"
    return f"{counted(len(real), 'problem', none='No')} in your job ({told})"


def counted_results(results: Sequence[Result]) -> str:
    """'34 experiments: 29 failed, 4 passed, 1 skipped'."""
    order = dict.fromkeys(("fail", "inconclusive", ERROR, *WORDS, UNRUN))
    counts = [(word, sum(result.word == word for result in results)) for word in order]
    told = ", ".join(
        counted(count, ERROR) if word == ERROR else f"{count} {WORDS.get(word, word)}"
        for word, count in counts
        if count
    )
    return f"{counted(len(results), 'experiment')}: {told or 'none ran'}"


def counted(count: int, noun: str, *, none: str = "no") -> str:
    """'1 problem', '2 weaknesses', 'no problem'."""
    many = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count or none} {noun if count in (0, 1) else many}"


def weakness_line(problems: Iterable[Problem], *, named: bool = True) -> str:
    """'2 weaknesses: no guard against NaN · does not ride out a short failure', with the experiments that show them if
    `named`; empty without any."""
    weak = [problem for problem in problems if problem.weakness]
    told = " · ".join(WEAKNESSES.get(one.code, one.code) + (f" ({names(one)})" if named else "") for one in weak)
    return f"{counted(len(weak), 'weakness')}: {told}" if weak else ""


def names(problem: Problem) -> str:
    """'test_resume and 22 more'."""
    first, *others = problem.shown_by
    return f"{first}{f' and {len(others)} more' if others else ''}"


def shown_by(problem: Problem) -> str:
    """'Shown by test_resume and 22 more.'"""
    return f"Shown by {names(problem)}."


def in_short(advice: str) -> str:
    """The advice without what stands in parentheses, and of each sentence only what comes before a semicolon."""
    return _FURTHER.sub("", _ASIDE.sub("", advice))


def proof_line(problem: Problem) -> str:
    """'Proven: with the position put back, ...'; empty if nothing was tried."""
    if problem.proof is None:
        return ""
    return f"{PROOFS[problem.proof.outcome]}: {problem.proof.sentence.rstrip('.')}."
