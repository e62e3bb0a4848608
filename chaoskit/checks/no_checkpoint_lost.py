"""`no_checkpoint_lost`: whenever a launch had ended, the last valid checkpoint was still there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.checkpoints import Checkpoint, checkpoints
from chaoskit.checks.check import Case, Check, unmeasured
from chaoskit.history import History
from chaoskit.remains import Files, damaged_by, gone_by, is_left, lies_at
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class NoCheckpointLost:
    """See `no_checkpoint_lost`."""

    name = "no_checkpoint_lost"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        for resume in case.resumes:
            if resume.destroyed:
                sentence = (
                    f"an unfinished save was written over the last valid checkpoint, of step {resume.last_valid}"
                )
                return failed(self.name, sentence, "checkpoint-lost", step=resume.last_valid)
        written = checkpoints(case.history, case.timeline)
        ends = [_End(event["launch"], event.t, event["files"]) for event in case.history.files]
        unknown_ends = []
        told = {}
        for end in ends:
            valid = _last_valid(case.history, written, end.t)
            if valid is None or (end is ends[-1] and _cleared_away(case)):
                continue
            left = _is_left(valid, written, end.files)
            told[str(end.launch)] = {"last_valid": valid.position, "left": left}
            if left is False:
                sentence = (
                    f"when launch {end.launch} had ended, no file was left of the last valid checkpoint, of step "
                    f"{valid.position}"
                )
                return failed(self.name, sentence, "checkpoint-lost", ends=told)
            if left is None and not _was_resumed(case, valid, end):
                unknown_ends.append(end.launch)
        if unknown_ends:
            sentence = (
                f"when launch {unknown_ends[0]} had ended, neither the names of files nor a later resume tell whether "
                "the last valid checkpoint was still there"
            )
            return inconclusive(self.name, sentence, "probe-blind", ends=told)
        if not ends:
            return inconclusive(self.name, "the files of the job were not listed", "probe-blind")
        return passed(self.name, "whenever a launch had ended, the last valid checkpoint was there", ends=told)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


@dataclass(frozen=True)
class _End:
    """The end of a launch, and what lay in the job's directory then."""

    launch: int
    t: float
    files: Files


def _last_valid(history: History, written: Sequence[Checkpoint], t: float) -> Checkpoint | None:
    """The newest checkpoint that had settled by then, that nobody had damaged, and that was not gone for good reason:
    retention cannot know that what it keeps will be damaged."""
    lost = (*damaged_by(history, written, t), *gone_by(history, written, t))
    settled = [one for one in written if one.settled_at is not None and one.settled_at <= t and one not in lost]
    return max(settled, key=lambda one: one.begun, default=None)


def _is_left(one: Checkpoint, written: Sequence[Checkpoint], files: Files) -> bool | None:
    """None where the names of files do not tell."""
    left = is_left(one.position, written, files)
    if left is None and any(lies_at(path, files) for path in one.paths):
        return True
    return left if files else False


def _was_resumed(case: Case, one: Checkpoint, end: _End) -> bool:
    """Whether the next life went on from it, or from a newer one."""
    later = [resume for resume in case.resumes if case.history.incarnations[resume.incarnation].start > end.t]
    if not later:
        return False
    base = case.timeline.starts[later[0].incarnation].base
    return base is not None and base >= one.position


def _cleared_away(case: Case) -> bool:
    """Whether the job came to its end, where an uninterrupted run keeps no checkpoint either, or none that can be
    told."""
    assert case.reference is not None
    control = case.reference.controls[0]
    if case.history.end != "finished":
        return False
    kept = control.files[-1]["files"] if control.files else ()
    own = [save for life in control.incarnations[0].ranks.values() for save in life.saves if save.n > 0]
    newest = max((save.n for save in own), default=0)
    numbered = any(str(newest) in name for name, _ in kept)
    return not numbered and not any(lies_at(save.path, kept) for save in own if save.n == newest)


def no_checkpoint_lost() -> Check:
    """Whenever a launch had ended, files of the last valid checkpoint were there: neither retention, nor a failed save,
    nor what was cleared away after an interruption took them.

    Fails with `checkpoint-lost`. Told by the names of the files at the end of each launch, or by a later resume
    from it; inconclusive where neither tells. A job that keeps no checkpoint past its own end need not keep one here.
    """
    return NoCheckpointLost()
