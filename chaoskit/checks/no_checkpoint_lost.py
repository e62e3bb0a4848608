"""`no_checkpoint_lost`: the last valid checkpoint exists at the end of every launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.checkpoints.damage import Files, damaged_by, gone_by, is_left, lies_at
from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.analysis.record.paths import numbers_in
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class NoCheckpointLost:
    """See `no_checkpoint_lost`."""

    name = "no_checkpoint_lost"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        for resume in case.resumes:
            # A storage that refuses to open the file for writing leaves what it holds: the resume shows that.
            resumed_from = case.timeline.base(resume.incarnation) or 0
            if resume.destroyed and resumed_from < resume.last_valid:
                sentence = f"an unfinished save overwrote the last valid checkpoint (step {resume.last_valid})"
                return failed(self.name, sentence, "checkpoint-lost", step=resume.last_valid)
        written = case.checkpoints
        ends = [_End(event["launch"], event.t, event["files"]) for event in case.history.files]
        unknown_ends = []
        by_launch = {}
        for end in ends:
            valid = _last_valid(case.history, written, end.t)
            if valid is None or (end is ends[-1] and _cleared_away(case)):
                continue
            left = _is_left(case, valid, end.files)
            by_launch[str(end.launch)] = {"last_valid": valid.position, "left": left}
            if left is False:
                sentence = (
                    f"when launch {end.launch} ended, no file of the last valid checkpoint (step {valid.position}) "
                    "was left"
                )
                return failed(self.name, sentence, "checkpoint-lost", ends=by_launch)
            if left is None and not _was_resumed(case, valid, end) and not _was_read(case, valid, end):
                unknown_ends.append(end.launch)
        if unknown_ends:
            sentence = (
                f"neither file names nor a later resume show whether the last valid checkpoint was still there when "
                f"launch {unknown_ends[0]} ended"
            )
            return inconclusive(self.name, sentence, "probe-blind", ends=by_launch)
        if not ends:
            return inconclusive(self.name, "the files of the job were not listed", "probe-blind")
        return passed(self.name, "the last valid checkpoint was there at the end of every launch", ends=by_launch)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


@dataclass(frozen=True)
class _End:
    """The end of a launch, and the files in the job's directory at that time."""

    launch: int
    t: float
    files: Files


def _last_valid(history: History, written: Sequence[Checkpoint], t: float) -> Checkpoint | None:
    """Return the newest checkpoint that had settled by then, that no fault had damaged or removed. Retention may
    remove one that is no longer needed: it cannot know that what it keeps will be damaged."""
    lost = (*damaged_by(history, written, t), *gone_by(history, written, t))
    settled = [one for one in written if one.settled_at is not None and one.settled_at <= t and one not in lost]
    return max(settled, key=lambda one: one.begun, default=None)


def _is_left(case: Case, one: Checkpoint, files: Files) -> bool | None:
    """Whether files of the checkpoint are left; None if the file names do not show it."""
    left = is_left(one.position, case.checkpoints, files)
    if left is None and (any(lies_at(path, files) for path in one.paths) or _has_its_number(case, one, files)):
        return True
    return left if files else False


def _has_its_number(case: Case, one: Checkpoint, files: Files) -> bool:
    """Whether a file has the step of the checkpoint in its name, in a job that names its checkpoints so: it may save to
    one temporary name and rename."""
    assert case.reference is not None
    control = case.reference.controls[0]
    kept = control.files[-1]["files"] if control.files else ()
    newest = max(case.reference.saves, default=0)
    return newest in _numbers(kept) and one.position in _numbers(files)


def _numbers(files: Files) -> set[int]:
    return {number for path, _ in files for number in numbers_in(path)}


def _was_resumed(case: Case, one: Checkpoint, end: _End) -> bool:
    """Whether the next incarnation resumed from it, or from a newer one."""
    later = [
        start.base
        for index, start in case.timeline.starts.items()
        if index > 0 and case.history.incarnations[index].start > end.t
    ]
    return bool(later) and later[0] is not None and later[0] >= one.position


def _was_read(case: Case, one: Checkpoint, end: _End) -> bool:
    """Whether a later incarnation read what was saved there or after: one that has nothing left to do takes no step."""
    every = [lifetime for _, lifetime in lifetimes(case.history)]
    saved = [save.content for lifetime in every for save in lifetime.saves if one.begun <= save.begun <= end.t]
    read = [load.content for lifetime in every for load in lifetime.loads if load.ok and load.begun > end.t]
    return any(content and content in saved for content in read)


def _cleared_away(case: Case) -> bool:
    """Whether the job finished and an uninterrupted run keeps no recognisable checkpoint at its end either."""
    assert case.reference is not None
    control = case.reference.controls[0]
    if case.history.end != "finished":
        return False
    kept = control.files[-1]["files"] if control.files else ()
    own = [save for lifetime in control.incarnations[0].ranks.values() for save in lifetime.saves if save.n > 0]
    newest = max((save.n for save in own), default=0)
    numbered = any(str(newest) in name for name, _ in kept)
    return not numbered and not any(lies_at(save.path, kept) for save in own if save.n == newest)


@check("checkpoint-lost")
def no_checkpoint_lost() -> Check:
    """At the end of every launch the files of the last valid checkpoint exist: no retention, failed save or cleanup
    after an interruption removed them.

    Fails with `checkpoint-lost`. The evidence is the file names at the end of each launch, or a later resume from
    that checkpoint; without either the verdict is inconclusive. A job that keeps no checkpoint after its own end need
    not keep one here.
    """
    return NoCheckpointLost()
