"""`problems_of`: the problems of a suite, one for each cause; `undecided` says what could not be judged, and why.

An experiment tells which of its codes are causes (`chaoskit/engine/consequences.py`). Over a suite the same code is the
same problem. What is a consequence of a cause in one experiment is no problem of its own in another one either, as long
as that cause is there to be mended first, and unless the record shows that it came about differently.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaoskit.analysis.record.steps import readable
from chaoskit.engine.code_sentences import capital
from chaoskit.engine.coded_finding import CodedFinding
from chaoskit.engine.result import Result
from chaoskit.errors import CODES, FAMILIES
from chaoskit.studies.problems.combined_proof import combined
from chaoskit.studies.problems.problem import Problem, Proof

#: What loses most comes first: wrong training, lost checkpoints, then time. Weaknesses come after all problems.
SEVERITY = {"state": 0, "data": 0, "checkpoint": 0, "trajectory": 1, "liveness": 2}
#: Codes that one cause may show in place of the other from experiment to experiment: where the first is a problem,
#: the second is none of its own if it was its consequence anywhere.
ELSEWHERE = ("checkpoint", "liveness", "trajectory")
#: One thing that shows itself by turns, depending on where the fault struck: rows come twice or never, as the position
#: in the data is wrong; the checkpoint that a save leaves cannot be read, or the one before it is gone already.
BY_TURNS = (("data-replayed", "data-skipped", "data-reordered"), ("checkpoint-lost", "torn-checkpoint"))
#: Of the data these are the position by themselves; others are if the job stands at some step in the data.
POSITION = ("data-replayed", "data-skipped")
#: The exception that ended a job, in the sentence of the check, and what of it differs from run to run.
_RAISED = re.compile(r"failed with (.+?)(?:; |$)", re.DOTALL)
_VARIES = re.compile(r"/\S+|\d+")
#: The components that the codes of state are of.
COMPONENTS = {
    "model-not-restored": "model", "buffers-not-restored": "buffers", "optimizer-not-restored": "optimizer",
    "options-not-restored": "options", "lr-schedule-off": "lr", "scaler-not-restored": "scaler",
    "ema-not-restored": "ema", "rng-not-restored": "rng", "rng-unused-not-restored": "rng",
    "data-replayed": "batch", "data-skipped": "batch", "data-reordered": "batch", "data-differs": "batch",
}  # fmt: skip


@dataclass
class _Cause:
    """One cause while it is collected: the experiments that show it, and what follows from it in them."""

    code: str
    shown: list[tuple[Result, CodedFinding]] = field(default_factory=list)
    consequences: dict[str, set[str]] = field(default_factory=dict)

    @property
    def weakness(self) -> bool:
        return all(finding.weakness for _, finding in self.shown)


def problems_of(results: Iterable[Result], *, proofs: Sequence[Proof] = ()) -> tuple[Problem, ...]:
    """The problems of a suite, those that lose most first, then the weaknesses. `proofs` are the runs in which lost
    state was put back: one that was exact shows that what else was wrong in that experiment was a consequence."""
    failed = [result for result in results if result.verdict == "fail"]
    causes: dict[str, _Cause] = {}
    for result in failed:
        told = _by_proof(result, proofs)
        for one in told:
            if one.follows:
                continue
            cause = causes.setdefault(one.code, _Cause(one.code))
            cause.shown.append((result, one))
            for other in told:
                if other.follows == one.code:
                    cause.consequences.setdefault(other.code, set()).add(_raised(other))
        if not told:
            own = CodedFinding("", result.sentences[0] if result.sentences else "")
            causes.setdefault("", _Cause("")).shown.append((result, own))
    for cause in _in_order(causes.values()):
        _absorb(cause, causes)
    found = [_problem(cause, proofs) for cause in _in_order(causes.values())]
    return tuple(sorted(found, key=lambda problem: problem.weakness))


def undecided(results: Iterable[Result]) -> tuple[Problem, ...]:
    """What could not be judged, once for each reason, in the form of problems; `shown_by` are the experiments."""
    open_ = [result for result in results if result.verdict == "inconclusive"]
    found: dict[tuple[str, str, str], list[tuple[Result, CodedFinding]]] = {}
    for result in open_:
        told = result.told or (CodedFinding("", result.sentences[0] if result.sentences else ""),)
        one = told[0]
        # Without a code the sentence is all there is to tell reasons apart.
        key = (one.code, "" if one.code else one.sentence, result.trouble)
        found.setdefault(key, []).append((result, one))
    return tuple(_problem(_Cause(code, shown), ()) for (code, _, _), shown in found.items())


def _by_proof(result: Result, proofs: Sequence[Proof]) -> list[CodedFinding]:
    """The findings of an experiment. If a run of it with the lost components put back was exact, every other wrong
    component is a consequence of them. If it was not exact, no finding is called a consequence."""
    told = list(result.told)
    for proof in proofs:
        if proof.experiment != result.name or proof.outcome != "proven":
            continue
        back = {COMPONENTS[one.code] for one in told if one.code in COMPONENTS} & {
            name.partition(".")[0] for name in proof.put_back
        }
        first = next((one.code for one in told if COMPONENTS.get(one.code) in back), None)
        if first is None:
            continue
        told = [
            one
            if one.follows or COMPONENTS.get(one.code, "") in back or one.code not in COMPONENTS
            else _following(one, first)
            for one in told
        ]
    return told


def _following(one: CodedFinding, cause: str) -> CodedFinding:
    return CodedFinding(one.code, one.sentence, one.check, one.advice, one.weakness, cause)


def _absorb(cause: _Cause, causes: dict[str, _Cause]) -> None:
    """Let a problem take in those that are nothing else, seen elsewhere."""
    if causes.get(cause.code) is not cause:
        return
    for other in [each for each in causes.values() if each is not cause]:
        if _by_turns(cause, other) or _seen_elsewhere(cause, other):
            cause.shown += [(result, finding) for result, finding in other.shown if not _shows(cause, result)]
            cause.consequences.setdefault(other.code, set())
            for code, raised in other.consequences.items():
                cause.consequences.setdefault(code, set()).update(raised)
            del causes[other.code]


def _by_turns(cause: _Cause, other: _Cause) -> bool:
    """Whether both are what one thing looks like at two instants. Of checkpoints that holds for one that a save was
    making: damage at rest is another matter."""
    if not any(cause.code in pair and other.code in pair for pair in BY_TURNS):
        return False
    if FAMILIES[cause.code] == "data":
        return all(
            finding.code in POSITION or finding.at is not None
            for each in (cause, other)
            for _, finding in each.shown
        )
    # What was destroyed says more than what was left.
    found = [finding for each in (cause, other) for _, finding in each.shown]
    return cause.code == "checkpoint-lost" and all(finding.check == "completed" for finding in found)


def _seen_elsewhere(cause: _Cause, other: _Cause) -> bool:
    """Whether `other` was a consequence of the cause in some experiment, and shows itself alike in others. A guard that
    is missing explains nothing where its fault does not strike, and a checkpoint is alike only by its exception."""
    if FAMILIES.get(other.code) not in ELSEWHERE or other.code not in cause.consequences:
        return False
    if cause.weakness or other.weakness:
        return False
    known = cause.consequences[other.code]
    if FAMILIES[other.code] == "checkpoint":
        known = known - {""}
    return all(_raised(finding) in known for _, finding in other.shown)


def _shows(cause: _Cause, result: Result) -> bool:
    return any(result is known for known, _ in cause.shown)


def _raised(finding: CodedFinding) -> str:
    """The exception that ended the job, without numbers and paths; empty if none is told."""
    found = _RAISED.search(finding.sentence)
    return _VARIES.sub("_", found[1].strip().rstrip(".")) if found else ""


def _in_order(causes: Iterable[_Cause]) -> list[_Cause]:
    place = {code: number for number, code in enumerate(CODES)}

    def key(cause: _Cause) -> tuple[bool, int, int, int]:
        family = SEVERITY.get(FAMILIES.get(cause.code, ""), 3)
        return cause.weakness, family, -len(cause.shown), place.get(cause.code, len(place))

    return sorted(causes, key=key)


def _problem(cause: _Cause, proofs: Sequence[Proof]) -> Problem:
    shown = sorted(cause.shown, key=lambda pair: _size(cause, *pair))
    smallest, finding = shown[0]
    advices = [finding.advice]
    if cause.code == "checkpoint-lost":
        advices += [one.advice for _, one in shown if FAMILIES.get(one.code) == "checkpoint"]
    sentence = finding.sentence.replace(f"{smallest.run}/out", "{out}") if smallest.run else finding.sentence
    return Problem(
        cause.code,
        capital(readable(sentence)) if sentence else CODES.get(cause.code, ""),
        " ".join(dict.fromkeys(capital(advice) for advice in advices if advice)),
        tuple(result.name for result, _ in shown),
        weakness=cause.weakness,
        consequences=tuple(code for code in cause.consequences if code != cause.code),
        run=smallest.run_path or "",
        repeat=_repeat(smallest),
        proof=_proof(cause, proofs),
    )


def _size(cause: _Cause, result: Result, finding: CodedFinding) -> tuple[bool, int, float]:
    """The experiment that shows a cause best comes first: as such, alone, and soonest."""
    as_such = finding.code == cause.code and finding.weakness == cause.weakness
    return not as_such, len(_roots(result)), _seconds(result)


def _roots(result: Result) -> list[str]:
    return [one.code for one in result.told if not one.follows]


def _seconds(result: Result) -> float:
    return result.seconds if result.seconds is not None else float("inf")


def _repeat(result: Result) -> str:
    """The command that repeats a run; empty if none is stored. That of a failed reference cannot be repeated."""
    path = result.run_path
    return f"chaoskit replay {shlex.quote(path)}" if path and Path(path).parent.name == "runs" else ""


def _proof(cause: _Cause, proofs: Sequence[Proof]) -> Proof | None:
    """The proof that put the component of this cause back: of all experiments that show it, if each was repeated, else
    of one."""
    names = {result.name for result, _ in cause.shown}
    component = COMPONENTS.get(cause.code)
    latest = {proof.experiment: proof for proof in proofs if proof.experiment in names}
    found = [
        proof
        for proof in latest.values()
        if component in {name.partition(".")[0] for name in proof.put_back} or proof.outcome == "impossible"
    ]
    if found and len(latest) == len(names) > 1:
        return combined([*latest.values()])
    return found[0] if found else None
