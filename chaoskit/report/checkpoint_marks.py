"""`Mark`: a checkpoint as the picture shows it: valid, refused, or resumed from; and `Return`, the way back to one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from chaoskit import contents
from chaoskit.checkpoints import Checkpoint, Resume, checkpoints
from chaoskit.checks.check import Case

Standing = Literal["valid", "refused", "resumed", "poisoned"]


@dataclass(frozen=True)
class Mark:
    """What became of the checkpoint that life `incarnation` wrote at a position. `harm` says what was wrong with it, if
    anything was: 'never finished', 'altered by a fault'."""

    position: int
    incarnation: int
    standing: Standing
    harm: str = ""
    by: int | None = None

    def __str__(self) -> str:
        told = {
            "valid": "valid",
            "poisoned": "whole, and never to be resumed from",
            "refused": f"not resumed from{'' if self.by is None else f' by life {self.by}'}",
            "resumed": f"life {self.by} resumed from it",
        }[self.standing]
        harm = f"; {self.harm}" if self.harm else ", although it was newer" if self.standing == "refused" else ""
        return f"checkpoint at step {self.position}, written by life {self.incarnation}: {told}{harm}"


@dataclass(frozen=True)
class Return:
    """Life `incarnation` began at position `to` (None: nothing tells where) after `reached` had been reached; `due` are
    the positions that it should have begun at."""

    incarnation: int
    reached: int
    to: int | None
    due: tuple[int, ...]

    def __str__(self) -> str:
        due = " or ".join(map(str, self.due))
        if self.to is None:
            return f"life {self.incarnation} went on from an unknown step after step {self.reached}; due was {due}"
        where = f"step {self.to}" if self.to else "the beginning"
        wrong = "" if self.to in self.due else f"; due was {due}"
        return f"life {self.incarnation} resumed from {where} after step {self.reached} had been reached{wrong}"


def marks(case: Case) -> tuple[Mark, ...]:
    """Every checkpoint past position 0, in the order in which they were begun."""
    written = checkpoints(case.history, case.timeline)
    poisoned = set(_poisoned(case))
    return tuple(_mark(case, one, written, (one.incarnation, one.position) in poisoned) for one in written)


def _poisoned(case: Case) -> Iterator[tuple[int, int]]:
    """The lives and positions of saves that hold a value which is not finite, where those of the reference do not."""
    for inc, _, save, _ in contents.poisoned(case.history, case.reference):
        if (base := case.timeline.base(inc.index)) is not None:
            yield inc.index, base + save.n


def returns(case: Case) -> tuple[Return, ...]:
    """Every time that the job took steps again after it had been struck, in order."""
    return tuple(
        Return(one.incarnation, one.position, case.timeline.base(one.incarnation), tuple(sorted(one.acceptable)))
        for one in case.resumes
    )


def _mark(case: Case, one: Checkpoint, written: Sequence[Checkpoint], poisoned: bool) -> Mark:
    harm = "" if one.complete else "its save never finished" if one.ok else "its save failed"
    harm = harm or ("it holds a value that is not finite" if poisoned else "")
    refused: int | None = None
    for resume in case.resumes:
        if not any(seen is one or seen == one for seen in resume.seen):
            continue
        altered = one.position in resume.damaged and _newest_at(one, resume)
        harm = "a fault had altered it" if altered else harm
        base = case.timeline.base(resume.incarnation)
        if base == one.position and _newest_at(one, resume):
            return Mark(one.position, one.incarnation, "resumed", harm, resume.incarnation)
        newer = base is not None and one.position > base and one.incarnation == resume.before
        if refused is None and (newer or altered):
            refused = resume.incarnation
    if poisoned and refused is None and one.complete:
        return Mark(one.position, one.incarnation, "poisoned", harm)
    bad = refused is not None or harm
    return Mark(one.position, one.incarnation, "refused" if bad else "valid", harm, refused)


def _newest_at(one: Checkpoint, resume: Resume) -> bool:
    """Whether it is what lay at its position when the job looked: the last that was whole, else the last."""
    there = [seen for seen in resume.seen if seen.position == one.position]
    return one == ([seen for seen in there if seen.complete] or there)[-1]
