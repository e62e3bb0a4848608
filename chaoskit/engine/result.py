"""`Result`: the outcome of one experiment, in the terms that the table, the JSON and JUnit share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from chaoskit.engine.coded_finding import CodedFinding, findings_of, of_codes, of_many_runs
from chaoskit.engine.ruling import Ruling
from chaoskit.engine.shortage import LOST, shortage
from chaoskit.errors import (
    ChaoskitError,
    CheckFailed,
    ExitCode,
    Inconclusive,
    MissingCapability,
    ReferenceFailed,
    StoreError,
    UsageError,
)
from chaoskit.remedies import REMEDIES
from chaoskit.schema import Count, Like, OneOf, Seconds, conform
from chaoskit.verdict import Outcome, Verdict, merge

if TYPE_CHECKING:
    from chaoskit.engine.runner import Run

#: What makes a suite fail: problems and weaknesses, or problems alone.
FailOn = Literal["weaknesses", "problems"]
SKIPPED = "skipped"
#: All that was lost is accepted by the users (see `Ruling`).
ACCEPTED = "accepted"
#: What people see instead of `inconclusive` where an experiment ended with an exception of its own.
ERROR = "error"
#: What people see instead of `skipped` where the budget of a night did not suffice, and how its only sentence begins.
UNRUN, NOT_RUN = "not run", "not run: budget"
#: The verdicts as participles, for summaries.
WORDS = {
    "pass": "passed", ACCEPTED: "accepted", "fail": "failed", "inconclusive": "inconclusive", SKIPPED: "skipped",
}  # fmt: skip


class _EveryRow(TypedDict):
    incarnation: Count
    rank: Count
    cells: Mapping[str, str | int | None]


class StoredRow(_EveryRow, total=False):
    """A row of a result's table: to which step of the reference each component belongs."""

    expected: Count | None


class WatchedSteps(TypedDict):
    """The steps that a run in a window took itself, of how many."""

    first: Count
    last: Count
    of: Count


@dataclass(frozen=True)
class Result:
    """One experiment. `verdict` is pass, accepted, fail, inconclusive or skipped; `run` is the directory of the stored
    run. `accepted` are the codes that were found and are accepted, `reasons` says why, by code; `codes` has none of
    them.

    `resumed_from` and `last_valid` are numbers of completed steps, None where they were not found. `noticed_seconds`,
    `stopped_seconds` and `recovery_seconds` count from the fault: until a rank noticed it, all ranks had stopped, the
    job trained again. `saved_seconds` is the time from a notice of preemption to a settled checkpoint, and
    `sufficient_grace` the grace that would just have sufficed.

    `table` is the alignment, one row for each incarnation and rank; `stacks` are those of ranks that
    hung. `waited_seconds` is the part of `seconds` that was spent waiting for a timer. `launched` lists how the job was
    launched: `warm`, `cold`, or `cold: ` and the reason; `launch_seconds` is the duration of a launch, `step_seconds`
    that of a step. `throughput` has the pace of each rank, during each fault that lasted and outside of them (see
    `chaoskit.analysis.recovery.throughput`). `advice` maps codes to what to change, where the findings tell it better
    than the code does.
    `findings` has each code with its own sentence, and what it follows from. `weakness`: all that is wrong is that a
    guard is missing, and nothing was lost or changed. `job` is the command, `runs` has every stored run that was
    judged, `references` the digests of their references. `watched` has the steps that each run in a window took itself,
    all steps for one that was run whole as well; other runs were whole. `probe_errors` are those of the probe itself
    that may have spoilt a part of the record.
    `trouble` is set where there is no verdict on the job:
    `usage` for a mistake in the experiment or its options, `environment` where that of the run failed, `exhausted`
    where this machine ran out of something, `internal` for an error of chaoskit's own.
    """

    name: str
    verdict: Annotated[str, OneOf(tuple(WORDS))]
    codes: tuple[str, ...] = ()
    resumed_from: int | None = None
    last_valid: int | None = None
    steps_lost: int | None = None
    recovery_seconds: Seconds | None = None
    noticed_seconds: Seconds | None = None
    stopped_seconds: Seconds | None = None
    saved_seconds: Seconds | None = None
    sufficient_grace: Seconds | None = None
    run: str | None = None
    sentences: tuple[str, ...] = ()
    table: tuple[Annotated[Mapping[str, Any], Like(StoredRow)], ...] = ()
    stacks: Mapping[str, str] = field(default_factory=dict)
    seconds: Seconds | None = None
    waited_seconds: Seconds = 0.0
    launched: tuple[str, ...] = ()
    launch_seconds: Seconds | None = None
    step_seconds: Seconds | None = None
    throughput: tuple[Mapping[str, Any], ...] = ()
    advice: Mapping[str, str] = field(default_factory=dict)
    weakness: bool = False
    job: str = ""
    runs: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    probe_errors: tuple[str, ...] = ()
    nodeid: str = ""
    accepted: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    trouble: Literal["", "usage", "environment", "exhausted", "internal"] = ""
    findings: tuple[CodedFinding, ...] = ()
    watched: tuple[WatchedSteps, ...] = ()

    @property
    def word(self) -> str:
        """The verdict for people: `error` where the experiment itself went wrong and nothing was judged, `not run`
        where a night had no time left for it."""
        return ERROR if self.trouble else UNRUN if self.is_unrun else self.verdict

    @property
    def is_unrun(self) -> bool:
        """Whether it did not run because the budget of the night did not suffice."""
        return self.verdict == SKIPPED and any(each.startswith(NOT_RUN) for each in self.sentences)

    @property
    def told(self) -> tuple[CodedFinding, ...]:
        """The findings; of a result that was stored without them, what its codes tell."""
        return self.findings or of_codes(self.codes, self.sentences, self.advice, weakness=self.weakness)

    @property
    def run_path(self) -> str | None:
        """`run` for people: relative to the current directory if it lies below."""
        below = self.run is not None and Path(self.run).is_relative_to(Path.cwd())
        return str(Path(str(self.run)).relative_to(Path.cwd())) if below else self.run

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field; workers hand their results to the controller in this form."""
        content = dict(self.__dict__)
        content.update(codes=list(self.codes), sentences=list(self.sentences), stacks=dict(self.stacks))
        lists = ("launched", "runs", "references", "probe_errors", "accepted")
        content.update({name: list(content[name]) for name in lists})
        content.update(advice=dict(self.advice), reasons=dict(self.reasons))
        content["findings"] = [one.to_json() for one in self.findings]
        content.update(table=[dict(row) for row in self.table], throughput=[dict(row) for row in self.throughput])
        content["watched"] = [dict(steps) for steps in self.watched]
        return content

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """The inverse of `to_json`; fields of a later version are left out. Raises ValueError, naming the field."""
        return conform(cls, data)


def of_runs(name: str, runs: Sequence[Run]) -> Result:
    """The result of several runs, by those of their last verdicts that count. The figures are those of the run that
    decides it: the first that failed, else the first that was inconclusive, else the last."""
    rulings = [run.ruling if run.ruling is not None else Ruling(run.verdicts) for run in runs]
    outcomes = [ruling.outcome for ruling in rulings]
    overall = merge(outcomes)
    deciding = (
        runs[outcomes.index(overall)] if overall is not Outcome.PASS and runs else runs[-1] if runs else None
    )
    verdicts = [verdict for ruling in rulings for verdict in ruling.verdicts]
    result = of_verdicts(name, verdicts)
    if overall is Outcome.PASS:
        # Also where every verdict was a fail that is accepted, so that none is left.
        result = replace(result, verdict=overall.value)
    if deciding is None:
        return result
    summary = deciding.summary
    both = (overall, Outcome.PASS)
    counting = zip(runs, rulings, strict=True)
    decided = [(run, [v for v in ruling.verdicts if v.outcome in both]) for run, ruling in counting]
    findings = of_many_runs(
        findings_of(own, [fault.kind for fault in run.history.faults if fault.observed is not None and fault.kind])
        for run, own in decided
        if overall is not Outcome.PASS
    )
    return replace(
        result,
        findings=findings,
        weakness=overall is Outcome.FAIL and _weak(findings),
        resumed_from=summary.resumed_from,
        last_valid=summary.last_valid,
        steps_lost=summary.steps_lost,
        recovery_seconds=summary.recovery_seconds,
        noticed_seconds=summary.noticed_seconds,
        stopped_seconds=summary.stopped_seconds,
        saved_seconds=summary.saved_seconds,
        sufficient_grace=summary.sufficient_grace,
        waited_seconds=round(sum(run.summary.waited_seconds for run in runs), 3),
        launched=tuple(dict.fromkeys(launch.how for run in runs for launch in run.history.launches)),
        launch_seconds=summary.launch_seconds,
        step_seconds=summary.step_seconds,
        throughput=tuple(one.to_json() for one in summary.throughput),
        job=deciding.job.text,
        runs=tuple(str(run.dir) for run in runs),
        references=tuple(dict.fromkeys(run.reference.digest for run in runs if run.reference is not None)),
        probe_errors=tuple(dict.fromkeys(error for run in runs for error in run.summary.probe_errors)),
        run=str(deciding.dir),
        watched=tuple(steps for run in runs if (steps := _watched(run)) is not None),
    )


def _watched(run: Run) -> WatchedSteps | None:
    if run.audited and run.reference is not None:
        return {"first": 1, "last": run.reference.steps, "of": run.reference.steps}
    window = run.history.window
    watched = run.case.watched if window is not None else None
    if window is None or watched is None:
        return None
    return {"first": watched.first, "last": watched.last, "of": window.of}


def of_verdicts(name: str, verdicts: Iterable[Verdict]) -> Result:
    """The result without figures: the outcome, and the codes, sentences and evidence of the verdicts that decide it."""
    given = list(verdicts)
    overall = merge(v.outcome for v in given)
    # Beside a failure, an inconclusive verdict is noise.
    deciding = [v for v in given if v.outcome is overall and overall is not Outcome.PASS]
    tables = [v.evidence["table"] for v in deciding if v.evidence.get("table")]
    stacks = [v.evidence["stacks"] for v in deciding if v.evidence.get("stacks")]
    sentences = [v.sentence for v in deciding]
    if overall is Outcome.INCONCLUSIVE:
        # What keeps one check from a judgement keeps the others from it, too.
        sentences = list({v.codes: v.sentence for v in reversed(deciding)}.values())[::-1]
    return Result(
        name,
        overall.value,
        codes=tuple(dict.fromkeys(code for v in deciding for code in v.codes)),
        sentences=without_repeats(sentences),
        table=tuple(tables[0]) if tables else (),
        stacks={str(rank): str(text) for rank, text in stacks[0].items()} if stacks else {},
        advice=advice_of(deciding),
        findings=(findings := findings_of([v for v in given if v.outcome in (overall, Outcome.PASS)])),
        weakness=overall is Outcome.FAIL and _weak(findings),
    )


def with_rulings(result: Result, rulings: Sequence[Ruling]) -> Result:
    """The result with what the rulings on its runs accepted. One that passes but for that is `accepted`."""
    codes = tuple(dict.fromkeys(code for ruling in rulings for code in ruling.accepted))
    notes = tuple(dict.fromkeys(note for ruling in rulings for note in ruling.notes))
    if result.verdict == SKIPPED or not (codes or notes):
        return result
    reasons = {code: why for ruling in rulings for code, why in ruling.reasons.items()}
    told = tuple(text for ruling in rulings for text in ruling.told)
    if codes and result.verdict == Outcome.PASS:
        return replace(
            result, verdict=ACCEPTED, accepted=codes, reasons=reasons, sentences=(*without_repeats(told), *notes)
        )
    return replace(result, accepted=codes, reasons=reasons, sentences=(*result.sentences, *notes))


def _weak(findings: Sequence[CodedFinding]) -> bool:
    """Whether every cause is a weakness."""
    return bool(findings) and all(one.weakness for one in findings if not one.follows)


def advice_of(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """What the findings of these verdicts advise, by code; the first advice for a code counts."""
    found: dict[str, str] = {}
    for verdict in verdicts:
        for code, text in verdict.evidence.get("advice", {}).items():
            found.setdefault(code, text)
    return found


def without_repeats(sentences: Sequence[str]) -> tuple[str, ...]:
    """Each sentence once; none that another one begins with, and none that only leads up to another one: what follows
    from the end of a job is no news beside it."""
    unique = dict.fromkeys(sentences)
    return tuple(
        one
        for one in unique
        if not any(other != one and (other.startswith(one) or one.endswith(f": {other}")) for other in unique)
    )


def of_error(name: str, error: BaseException, runs: Sequence[Run]) -> Result:
    """The result of an experiment that ended with this exception; `runs` are those that were judged."""
    base = of_runs(name, runs) if runs else Result(name, Outcome.INCONCLUSIVE.value)
    said = str(error).strip() or type(error).__name__
    match error:
        case Inconclusive() if not runs:
            return replace(base, sentences=(said,))
        case CheckFailed() if runs:
            return base
        case ReferenceFailed():
            own = CodedFinding(error.code, said, advice=error.advice or REMEDIES.get(error.code, ""))
            return replace(_undecided(base, said), codes=(error.code,), findings=(own,), run=error.run or base.run)
        case MissingCapability():
            remedy = f"; {error.remedy}" if error.remedy and error.remedy not in said else ""
            return _undecided(base, said + remedy)
        case CheckFailed() | AssertionError():
            return replace(base, verdict=Outcome.FAIL.value, sentences=(*base.sentences, said))
        case _ if (lacking := shortage(error)) is not None:
            return replace(_undecided(base, f"{lacking} ({LOST})"), trouble="exhausted")
        case UsageError():
            return replace(_undecided(base, said), trouble="usage")
        case StoreError() if error.exit_code is ExitCode.USAGE:
            return replace(_undecided(base, said), trouble="usage")
        case ChaoskitError():
            return replace(_undecided(base, said), trouble="environment")
        case _:
            return replace(_undecided(base, f"{type(error).__name__}: {said}"), trouble="internal")


def _undecided(base: Result, sentence: str) -> Result:
    return replace(
        base,
        verdict=Outcome.INCONCLUSIVE.value,
        codes=(),
        sentences=(sentence,),
        table=(),
        stacks={},
        findings=(),
        weakness=False,
    )


def overall(results: Iterable[Result]) -> Outcome:
    """The worst outcome; an accepted experiment counts as a pass and a skipped one does not count. Where none is left
    it is inconclusive."""
    counting = [result.verdict for result in results if result.verdict != SKIPPED]
    return merge(Outcome.PASS if verdict == ACCEPTED else Outcome(verdict) for verdict in counting)


#: The exit code for each outcome.
EXIT_CODES = {
    Outcome.PASS: ExitCode.PASS,
    Outcome.FAIL: ExitCode.FAIL,
    Outcome.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
}


def exit_code(results: Sequence[Result], *, fail_on: FailOn = "weaknesses") -> ExitCode:
    """The exit code of all: an error of chaoskit comes first, then what has run out, an error of the environment, a
    mistake in usage, and last the verdicts. With `fail_on="problems"` an experiment that shows only weaknesses counts
    as one that passed."""
    troubles = {r.trouble for r in results}
    if "exhausted" in troubles and "internal" not in troubles:
        return ExitCode.EXHAUSTED
    if troubles & {"environment", "internal"}:
        return ExitCode.INTERNAL
    if "usage" in troubles:
        return ExitCode.USAGE
    outcomes = [
        Outcome.PASS if r.verdict == ACCEPTED or (fail_on == "problems" and r.weakness) else Outcome(r.verdict)
        for r in results
        if r.verdict != SKIPPED
    ]
    return EXIT_CODES[merge(outcomes)]
