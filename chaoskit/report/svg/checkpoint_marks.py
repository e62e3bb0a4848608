"""`CheckpointMark`: a checkpoint in the picture (valid, refused, resumed from, poisoned); `ReturnMark`: a resume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints import contents
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.checkpoints.resumes import Resume

Standing = Literal["valid", "refused", "resumed", "poisoned"]


@dataclass(frozen=True)
class CheckpointMark:
    """The use of the checkpoint that lifetime `incarnation` wrote at a position. `harm` describes its damage, if any;
    `by` is the lifetime that resumed from it or refused it."""

    position: int
    incarnation: int
    standing: Standing
    harm: str = ""
    by: int | None = None

    def __str__(self) -> str:
        use = {
            "valid": "valid",
            "poisoned": "complete, but not usable",
            "refused": f"not resumed from{'' if self.by is None else f' by incarnation {self.by}'}",
            "resumed": f"incarnation {self.by} resumed from it",
        }[self.standing]
        harm = f"; {self.harm}" if self.harm else ", although it was newer" if self.standing == "refused" else ""
        return f"checkpoint at step {self.position}, written by incarnation {self.incarnation}: {use}{harm}"


@dataclass(frozen=True)
class ReturnMark:
    """Lifetime `incarnation` resumed from position `to` (None: unknown) after the job had reached `reached`; `due` are
    the expected positions."""

    incarnation: int
    reached: int
    to: int | None
    due: tuple[int, ...]

    def __str__(self) -> str:
        due = " or ".join(map(str, self.due))
        if self.to is None:
            where, wrong = "an unknown step", f"; expected: step {due}"
        else:
            where, wrong = f"step {self.to}", "" if self.to in self.due else f"; expected: step {due}"
        reached = f"after the job had reached step {self.reached}"
        return f"incarnation {self.incarnation} resumed from {where} {reached}{wrong}"


def marks(case: Case) -> tuple[CheckpointMark, ...]:
    """Return every checkpoint after position 0, in order of its start."""
    written = case.checkpoints
    poisoned = set(_poisoned(case))
    return tuple(_mark(case, one, written, (one.incarnation, one.position) in poisoned) for one in written)


def _poisoned(case: Case) -> Iterator[tuple[int, int]]:
    """Yield lifetime and position of each save with a value that is not finite, unless the reference has it too."""
    for inc, _, save, _ in contents.poisoned(case.history, case.reference):
        if (base := case.timeline.base(inc.index)) is not None:
            yield inc.index, base + save.n


def returns(case: Case) -> tuple[ReturnMark, ...]:
    """Return every resume after a fault, in order."""
    return tuple(
        ReturnMark(
            one.incarnation, one.position, case.timeline.base(one.incarnation), tuple(sorted(one.acceptable))
        )
        for one in case.resumes
    )


def _mark(case: Case, one: Checkpoint, written: Sequence[Checkpoint], poisoned: bool) -> CheckpointMark:
    harm = "" if one.complete else "its save never finished" if one.ok else "its save failed"
    harm = harm or ("it contains NaN or infinity" if poisoned else "")
    refused: int | None = None
    for resume in case.resumes:
        if not any(seen is one or seen == one for seen in resume.seen):
            continue
        altered = one.position in resume.damaged and _newest_at(one, resume)
        harm = "a fault altered it" if altered else harm
        base = case.timeline.base(resume.incarnation)
        if base == one.position and _newest_at(one, resume):
            return CheckpointMark(one.position, one.incarnation, "resumed", harm, resume.incarnation)
        newer = base is not None and one.position > base and one.incarnation == resume.before
        if refused is None and (newer or altered):
            refused = resume.incarnation
    if poisoned and refused is None and one.complete:
        return CheckpointMark(one.position, one.incarnation, "poisoned", harm)
    bad = refused is not None or harm
    return CheckpointMark(one.position, one.incarnation, "refused" if bad else "valid", harm, refused)


def _newest_at(one: Checkpoint, resume: Resume) -> bool:
    """Whether the job found this checkpoint at its position: the last complete one, else the last."""
    there = [seen for seen in resume.seen if seen.position == one.position]
    return one == ([seen for seen in there if seen.complete] or there)[-1]
