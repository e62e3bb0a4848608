"""`Crossing`: a checkpoint that one interpreter saves and another resumes, and the result.

A crossing is an ordinary run: the first interpreter launches it, all its processes are killed some steps after a save,
the second interpreter relaunches it, and it is compared with the uninterrupted run of the first.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from chaoskit import checks, faults
from chaoskit.analysis.record.steps import furthest
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.runner import Run, Runner
from chaoskit.environments.launch.mode import COLD, Mode
from chaoskit.errors import MissingCapability, ReferenceFailed, UsageError
from chaoskit.job import Job
from chaoskit.protocol.events import rank_events
from chaoskit.studies.upgrade.band import LossTolerance
from chaoskit.studies.upgrade.interpreter import Interpreter
from chaoskit.verdict import Outcome, Verdict

Word = Literal["exact", "within", "wrong", "no-load", "undecided"]
#: The verdicts in words.
WORDS: Mapping[Word, str] = {
    "exact": "resumes exactly",
    "within": "resumes within the tolerance",
    "wrong": "resumes incorrectly",
    "no-load": "does not load",
    "undecided": "undecided",
}
#: The checks applied to a crossing before its losses are compared.
CLAIMS = ("resumed_from_last_valid", "state_restored", "same_data", "completed")


@dataclass(frozen=True)
class Side:
    """One interpreter (`old` or `new`), its form of the job, and its uninterrupted run, or why there is none."""

    name: str
    interpreter: Interpreter
    job: Job
    reference: Reference | None = None
    failed: str = ""

    @property
    def title(self) -> str:
        """'new (torch 2.14.1)'."""
        return f"{self.name} ({self.interpreter.title})"

    def measured(self, runner: Runner) -> Side:
        """Return the side with its uninterrupted run, stored or new."""
        try:
            return replace(self, reference=runner.reference(self.job))
        except ReferenceFailed as error:
            return replace(self, failed=str(error))


@dataclass(frozen=True)
class Crossing:
    """The result of a checkpoint that side `saved` saved and side `resumed` resumed; a control if they are the same.

    `worst` is the largest relative difference of a loss after the resume, at step `worst_step`.
    """

    saved: str
    resumed: str
    word: Word
    sentence: str
    codes: tuple[str, ...] = ()
    position: int | None = None
    worst: float | None = None
    worst_step: int | None = None
    run: str = ""

    @property
    def is_control(self) -> bool:
        """Whether both sides are the same."""
        return self.saved == self.resumed

    @property
    def place(self) -> str:
        """`run` for display: relative if it lies below the current directory."""
        return os.path.relpath(self.run) if Path(self.run).is_relative_to(Path.cwd()) else self.run

    @property
    def phrase(self) -> str:
        """'the checkpoint of old does not load under new'."""
        word = "could not be judged" if self.word == "undecided" else WORDS[self.word]
        return f"the checkpoint of {self.saved} {word} under {self.resumed}"

    @property
    def outcome(self) -> Outcome:
        """The verdict as pass, fail or inconclusive."""
        bad = {"wrong": Outcome.FAIL, "no-load": Outcome.FAIL, "undecided": Outcome.INCONCLUSIVE}
        return bad.get(self.word, Outcome.PASS)

    def to_json(self) -> dict[str, Any]:
        """Return every field as plain JSON."""
        far = self.worst if self.worst is None or math.isfinite(self.worst) else str(self.worst)
        return {
            **asdict(self),
            "verdict": self.word,
            "codes": list(self.codes),
            "control": self.is_control,
            "worst": far,
        }


def cross(runner: Runner, saves: Side, resumes: Side, band: LossTolerance) -> Crossing:
    """Resume a checkpoint of one side on the other, and judge the result."""
    reference = saves.reference
    if reference is None:
        why = f"the uninterrupted run under {saves.title} failed, so there is nothing to compare with: {saves.failed}"
        return Crossing(saves.name, resumes.name, "undecided", why, ("reference-failed",))
    if not reference.saves:
        why = "the job saves no checkpoint"
        return Crossing(saves.name, resumes.name, "undecided", why)
    job = replace(saves.job, relaunch_command=resumes.job.command, relaunches=1)
    mode = Mode.from_json(resumes.reference.mode) if resumes.reference is not None else COLD
    step = reference.middle_of_epoch(2)
    if step <= reference.saves[0] + 1:
        step = reference.middle_after_save(1)
    try:
        run = runner.run(
            job, faults.kill(launcher=True).at_step(step), relaunch_mode=replace(mode, demanded=False)
        )
    except (MissingCapability, UsageError) as error:
        return Crossing(saves.name, resumes.name, "undecided", str(error))
    return judge(run, saves, resumes, band)


def judge(run: Run, saves: Side, resumes: Side, band: LossTolerance) -> Crossing:
    """Judge a crossing by its record."""
    verdicts = run.judge(*(checks.REGISTRY[name]() for name in (*CLAIMS, "matches_reference")))
    *claims, losses = verdicts
    found = Crossing(
        saves.name, resumes.name, "undecided", "", run=str(run.dir), position=run.summary.resumed_from
    )
    if (why := _never_crossed(run, resumes.interpreter)) is not None:
        return replace(found, sentence=why, codes=("fault-not-observed",))
    if (error := _load_error(run)) is not None:
        more = f"; the uninterrupted run under {resumes.title} fails too" if resumes.failed else ""
        return replace(found, word="no-load", sentence=error + more, codes=_codes(claims, Outcome.FAIL))
    lost = [one for one in claims if one.outcome is Outcome.FAIL]
    if lost or set(losses.codes) & {"nonfinite-accepted", "ranks-diverged"}:
        failed = lost or [losses]
        error = next((f"; a load failed: {error}" for error in _failed_loads(run)), "")
        return replace(found, word="wrong", sentence=_sentence(failed) + error, codes=_codes(failed, Outcome.FAIL))
    if open_ones := [one for one in claims if one.outcome is Outcome.INCONCLUSIVE]:
        return replace(found, sentence=_sentence(open_ones), codes=_codes(open_ones, Outcome.INCONCLUSIVE))
    return _by_losses(run, found, losses, band)


def _by_losses(run: Run, found: Crossing, losses: Verdict, band: LossTolerance) -> Crossing:
    """Judge the losses after a resume that restored the state bitwise."""
    assert run.reference is not None
    last = run.reference.steps
    restored = f"every component is bitwise equal to that of step {found.position}"
    gaps = list(_gaps(run))
    if not gaps:
        return replace(found, sentence=f"{restored}, but no later loss was observed", codes=("probe-blind",))
    worst, step = max(gaps)
    found = replace(found, worst=worst, worst_step=step)
    of = f"the uninterrupted run of {found.saved}"
    if losses.outcome is Outcome.PASS and worst == 0.0:
        return replace(found, word="exact", sentence=f"{restored}, and every step up to {last} is equal to {of}")
    far = f"the losses up to step {last} differ from {of} by at most {worst:.3g} (at step {step})"
    if worst <= band.value:
        return replace(found, word="within", sentence=f"{restored}; {far}, within the tolerance of {band}")
    sentence = f"{restored}; but {far}, above the tolerance of {band}"
    return replace(found, word="wrong", sentence=sentence, codes=("loss-diverged",))


def _gaps(run: Run) -> Iterator[tuple[float, int]]:
    """Yield the difference of the losses of each step after the resume from the nearest control, with the step."""
    case, reference = run.case, run.reference
    assert reference is not None
    controls = [dict(traces) for traces in reference.all_traces()]
    for one in case.timeline.segments:
        if case.history.incarnations[one.incarnation].launch == 0:
            continue
        for index in range(one.start, one.end):
            own = one.execution(index)
            wanted = [control[own.rank].losses for control in controls if own.rank in control]
            known = [column[own.step - 1] for column in wanted if own.step <= len(column)]
            gaps = [gap for losses in known if (gap := furthest(" ".join(own.record.losses), losses)) is not None]
            if " ".join(own.record.losses) or any(known):
                yield min(gaps, default=math.inf), own.step


def _never_crossed(run: Run, resumes: Interpreter) -> str | None:
    """Return why the record does not prove that this interpreter resumed the checkpoint; None if it does."""
    if not run.history.faults or run.history.faults[0].observed is None:
        return "the kill of the job was not observed, so nothing was resumed"
    if len(run.history.launches) < 2:
        return "the job was not relaunched, so nothing was resumed"
    versions = {str(event["version"]) for event in _relaunched(run, "torch")}
    programs = {str(event["argv"][0]) for event in _relaunched(run, "process.start")}
    if versions - {resumes.versions["torch"]}:
        return f"the ranks that resumed had torch {', '.join(sorted(versions))}, not {resumes.versions['torch']}"
    if strangers := sorted(word for word in programs if not resumes.is_run_by(word)):
        return f"the ranks that resumed were started by {strangers[0]}, not by {resumes.path}"
    return None


def _relaunched(run: Run, kind: str) -> Iterator[Any]:
    """Yield the events of one kind from the ranks of relaunches."""
    for event in rank_events(run.dir, kind):
        if int(event.source.split("-")[1]) > 0:
            yield event


def _load_error(run: Run) -> str | None:
    """Return the error that ended the job before its first step after the relaunch; None if it took a step."""
    if any(inc.first_step is not None for inc in run.history.incarnations if inc.launch > 0):
        return None
    if run.history.end in ("hang", "deadline"):
        return "the job hangs: it took no step"
    return next(_failed_loads(run), None) or last_error(run.dir / "logs" / "launch-1.log")


def _failed_loads(run: Run) -> Iterator[str]:
    """Yield the errors of loads after the relaunch."""
    for inc in run.history.incarnations:
        for own in inc.ranks.values() if inc.launch > 0 else ():
            for load in own.loads:
                if not load.ok:
                    yield f"{load.error or 'an error'} (reading {load.path or 'the checkpoint'})"


#: The prefix that torchrun, and torch on a rank, put before a line.
_MARK = re.compile(r"(?:\[[^\]]*\]:? ?)*")
_TRACEBACK = "Traceback (most recent call last)"


def last_error(log: Path) -> str:
    """Return the error that ended a launch, from its log: the last exception of the first process with one, ranks
    first."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    marks = [found[0] for line in lines if _TRACEBACK in line and (found := _MARK.match(line)) is not None]
    if not marks:
        output = [line for line in lines if line.strip()]
        return f"the last line of its log: {output[-1]}" if output else "it ended without any output"
    mark = next((one for one in marks if one), marks[0])
    error, inside = "", False
    for line in (line[len(mark) :] for line in lines if line.startswith(mark)):
        if _TRACEBACK in line:
            inside = True
        elif inside and line[:1].strip():
            error, inside = line, False
    return error or "its log ends within a traceback"


def _codes(verdicts: Sequence[Verdict], outcome: Outcome) -> tuple[str, ...]:
    return tuple(dict.fromkeys(code for one in verdicts if one.outcome is outcome for code in one.codes))


def _sentence(verdicts: Sequence[Verdict]) -> str:
    return "; ".join(dict.fromkeys(one.sentence for one in verdicts))
