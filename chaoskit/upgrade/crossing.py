"""`Crossing`: a checkpoint that one interpreter saves and one resumes, and what came of it.

A crossing is one ordinary run: launched by the one, lost altogether some steps after a save, relaunched by the other,
and held to the uninterrupted run of the one that began.
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
from chaoskit.errors import MissingCapability, ReferenceFailed, UsageError
from chaoskit.events import rank_events
from chaoskit.job import Job
from chaoskit.launch.mode import COLD, Mode
from chaoskit.reference import Reference
from chaoskit.runner import Run, Runner
from chaoskit.steps import furthest
from chaoskit.upgrade.band import Band
from chaoskit.upgrade.interpreter import Interpreter
from chaoskit.verdict import Outcome, Verdict

Word = Literal["exact", "within", "wrong", "no-load", "undecided"]
#: What each verdict is called.
WORDS: Mapping[Word, str] = {
    "exact": "resumes exactly",
    "within": "resumes within the band",
    "wrong": "resumes wrong",
    "no-load": "does not load",
    "undecided": "undecided",
}
#: What is claimed of a crossing before its losses are looked at.
CLAIMS = ("resumed_from_last_valid", "state_restored", "same_data", "completed")


@dataclass(frozen=True)
class Side:
    """One interpreter, `old` or `new`, the job as it runs it, and its uninterrupted run, or why there is none."""

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
        """The same with its uninterrupted run, a kept one or a new one."""
        try:
            return replace(self, reference=runner.reference(self.job))
        except ReferenceFailed as error:
            return replace(self, failed=str(error))


@dataclass(frozen=True)
class Crossing:
    """What came of a checkpoint that side `saved` saved and side `resumed` resumed; a control where they are the same.

    `worst` is how far the loss of a step after the resume was off at most, relatively, at step `worst_step`.
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
        """Whether the checkpoint stays on its side."""
        return self.saved == self.resumed

    @property
    def place(self) -> str:
        """`run` as it is shown: relative to the current directory where it lies below."""
        return os.path.relpath(self.run) if Path(self.run).is_relative_to(Path.cwd()) else self.run

    @property
    def phrase(self) -> str:
        """'what old saved does not load under new'."""
        word = "could not be judged" if self.word == "undecided" else WORDS[self.word]
        return f"what {self.saved} saved {word} under {self.resumed}"

    @property
    def outcome(self) -> Outcome:
        """As any verdict."""
        bad = {"wrong": Outcome.FAIL, "no-load": Outcome.FAIL, "undecided": Outcome.INCONCLUSIVE}
        return bad.get(self.word, Outcome.PASS)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        far = self.worst if self.worst is None or math.isfinite(self.worst) else str(self.worst)
        return {
            **asdict(self),
            "verdict": self.word,
            "codes": list(self.codes),
            "control": self.is_control,
            "worst": far,
        }


def cross(runner: Runner, saves: Side, resumes: Side, band: Band) -> Crossing:
    """Carry a checkpoint from the one side to the other, and judge what comes of it."""
    reference = saves.reference
    if reference is None:
        why = (
            f"the uninterrupted run under {saves.title} failed, so there is nothing to hold it to: {saves.failed}"
        )
        return Crossing(saves.name, resumes.name, "undecided", why, ("reference-failed",))
    if not reference.saves:
        why = "the job saves no checkpoint, so there is none to carry across"
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


def judge(run: Run, saves: Side, resumes: Side, band: Band) -> Crossing:
    """What came of a crossing, by its record."""
    verdicts = run.judge(*(checks.REGISTRY[name]() for name in (*CLAIMS, "matches_reference")))
    *claims, losses = verdicts
    found = Crossing(
        saves.name, resumes.name, "undecided", "", run=str(run.dir), position=run.summary.resumed_from
    )
    if (why := _never_crossed(run, resumes.interpreter)) is not None:
        return replace(found, sentence=why, codes=("fault-not-observed",))
    if (error := _load_error(run)) is not None:
        more = f"; no uninterrupted run under {resumes.title} comes to its end either" if resumes.failed else ""
        return replace(found, word="no-load", sentence=error + more, codes=_codes(claims, Outcome.FAIL))
    lost = [one for one in claims if one.outcome is Outcome.FAIL]
    if lost or set(losses.codes) & {"nonfinite-accepted", "ranks-diverged"}:
        told = lost or [losses]
        error = next((f"; a load said: {error}" for error in _refused(run)), "")
        return replace(found, word="wrong", sentence=_told(told) + error, codes=_codes(told, Outcome.FAIL))
    if open_ones := [one for one in claims if one.outcome is Outcome.INCONCLUSIVE]:
        return replace(found, sentence=_told(open_ones), codes=_codes(open_ones, Outcome.INCONCLUSIVE))
    return _by_losses(run, found, losses, band)


def _by_losses(run: Run, found: Crossing, losses: Verdict, band: Band) -> Crossing:
    """The state is back to the bit: what of the losses that follow?"""
    assert run.reference is not None
    last = run.reference.steps
    restored = f"every component is that of step {found.position}, to the bit"
    gaps = list(_gaps(run))
    if not gaps:
        return replace(found, sentence=f"{restored}, but no loss was seen after that", codes=("probe-blind",))
    worst, step = max(gaps)
    found = replace(found, worst=worst, worst_step=step)
    of = f"the uninterrupted run of {found.saved}"
    if losses.outcome is Outcome.PASS and worst == 0.0:
        return replace(
            found, word="exact", sentence=f"{restored}, and every step from there to {last} is that of {of}"
        )
    far = f"the losses up to step {last} are at most {worst:.3g} off {of} (step {step})"
    if worst <= band.value:
        return replace(found, word="within", sentence=f"{restored}; {far}, within the band of {band}")
    sentence = f"{restored}; but {far}, outside the band of {band}"
    return replace(found, word="wrong", sentence=sentence, codes=("loss-diverged",))


def _gaps(run: Run) -> Iterator[tuple[float, int]]:
    """How far the losses of each step after the resume are off those of the nearest control."""
    case, reference = run.case, run.reference
    assert reference is not None
    controls = [dict(traces) for traces in reference.all_traces()]
    for one in case.timeline.segments:
        if case.history.incarnations[one.incarnation].launch == 0:
            continue
        for place in range(one.start, one.end):
            own = one.execution(place)
            wanted = [control[own.rank].losses for control in controls if own.rank in control]
            known = [column[own.step - 1] for column in wanted if own.step <= len(column)]
            gaps = [gap for losses in known if (gap := furthest(" ".join(own.record.losses), losses)) is not None]
            if " ".join(own.record.losses) or any(known):
                yield min(gaps, default=math.inf), own.step


def _never_crossed(run: Run, resumes: Interpreter) -> str | None:
    """Why it is not sure that the checkpoint was resumed by that interpreter; None where the record shows it."""
    if not run.history.faults or run.history.faults[0].observed is None:
        return "the job was never seen to be lost, so nothing was resumed"
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
    """What the ranks of relaunches said of one kind."""
    for event in rank_events(run.dir, kind):
        if int(event.source.split("-")[1]) > 0:
            yield event


def _load_error(run: Run) -> str | None:
    """What the job died of before its first step after the relaunch; None where it took one."""
    if any(inc.first_step is not None for inc in run.history.incarnations if inc.launch > 0):
        return None
    if run.history.end == "deadline":
        return "no step was taken before the deadline: it hangs"
    return next(_refused(run), None) or said_last(run.dir / "logs" / "launch-1.log")


def _refused(run: Run) -> Iterator[str]:
    """The errors of loads after the relaunch."""
    for inc in run.history.incarnations:
        for life in inc.ranks.values() if inc.launch > 0 else ():
            for load in life.loads:
                if not load.ok:
                    yield f"{load.error or 'an error'} (reading {load.path or 'the checkpoint'})"


#: What torchrun, and torch on a rank, put before a line.
_MARK = re.compile(r"(?:\[[^\]]*\]:? ?)*")
_TRACEBACK = "Traceback (most recent call last)"


def said_last(log: Path) -> str:
    """What a launch died of, by its log: the last exception of the first process that shows one, ranks first."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    marks = [found[0] for line in lines if _TRACEBACK in line and (found := _MARK.match(line)) is not None]
    if not marks:
        said = [line for line in lines if line.strip()]
        return f"it said last: {said[-1]}" if said else "it ended without a word"
    mark = next((one for one in marks if one), marks[0])
    error, inside = "", False
    for line in (line[len(mark) :] for line in lines if line.startswith(mark)):
        if _TRACEBACK in line:
            inside = True
        elif inside and line[:1].strip():
            error, inside = line, False
    return error or "it ended in the middle of a traceback"


def _codes(verdicts: Sequence[Verdict], outcome: Outcome) -> tuple[str, ...]:
    return tuple(dict.fromkeys(code for one in verdicts if one.outcome is outcome for code in one.codes))


def _told(verdicts: Sequence[Verdict]) -> str:
    return "; ".join(dict.fromkeys(one.sentence for one in verdicts))
