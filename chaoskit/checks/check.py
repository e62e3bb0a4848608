"""`Check`: one claim about a run; `Case`: what it judges, the record beside its reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from chaoskit.checkpoints import Resume, resumes
from chaoskit.checks.comparison import Comparison, compare
from chaoskit.course import Course, courses
from chaoskit.history import History, lives
from chaoskit.journal import Journal
from chaoskit.ledger import Ledger, ledger
from chaoskit.omission import Omission, omission
from chaoskit.recovery import Recovery, recoveries
from chaoskit.reference import Reference
from chaoskit.timeline import Timeline
from chaoskit.verdict import Verdict, inconclusive


@dataclass(frozen=True)
class Case:
    """A run and what it is held to. What several checks need of it is worked out once.

    `journal` is what the job did to its storage, where that was watched.
    """

    history: History
    reference: Reference | None = None
    journal: Journal | None = None

    @cached_property
    def timeline(self) -> Timeline:
        """The steps of the run under their true numbers."""
        return Timeline(self.history, self.reference)

    @cached_property
    def resumes(self) -> tuple[Resume, ...]:
        """Every time that the job took steps again after it had been struck."""
        return resumes(self.history, self.timeline)

    @cached_property
    def recoveries(self) -> tuple[Recovery, ...]:
        """The measures of every observed fault."""
        return recoveries(self.history, self.timeline)

    @cached_property
    def comparison(self) -> Comparison:
        """Every executed step beside the reference's; empty without a reference."""
        return compare(self.timeline, self.reference) if self.reference is not None else Comparison()

    @cached_property
    def courses(self) -> tuple[Course, ...]:
        """What came of every number that a fault corrupted; empty without a reference."""
        return courses(self.timeline) if self.reference is not None else ()

    @cached_property
    def omitted(self) -> tuple[int, ...]:
        """The steps of the reference whose batches the job left out after a rollback, and nothing else."""
        found = self._omissions.values()
        return tuple(sorted({step for one in found if one is not None and not one.code for step in one.steps}))

    def omission(self, course: Course) -> Omission | None:
        """What the job left out of the batches once it had gone back for a bad number (see `omission`)."""
        return self._omissions[course.corruption.fault]

    @cached_property
    def _omissions(self) -> dict[int, Omission | None]:
        return {course.corruption.fault: omission(self.timeline, course) for course in self.courses}

    @cached_property
    def ledger(self) -> Ledger | None:
        """What was consumed beside what was due; None without a reference that shows it."""
        return ledger(self.timeline, self.reference) if self.reference is not None else None

    def table(self) -> list[dict[str, Any]]:
        """The alignment as evidence: one row for each incarnation and rank that stepped."""
        due = {resume.incarnation: self.expected(resume) for resume in self.resumes}
        return [
            {
                "incarnation": start.incarnation,
                "rank": rank,
                "expected": due.get(start.incarnation, 0),
                "cells": own.row(due.get(start.incarnation, 0)),
            }
            for start in self.timeline.starts.values()
            for rank, own in start.ranks.items()
        ]

    def expected(self, resume: Resume) -> int:
        """The position at which every component should be after this resume: that of the checkpoint that was
        evidently read; whether it should have been another one is the claim of `resumed_from_last_valid`."""
        start = self.timeline.starts[resume.incarnation]
        base = start.base
        if base is None:
            return resume.last_valid
        written = base in resume.acceptable or any(one.position == base for one in resume.seen)
        if written or any(own.trusted(base) for own in start.ranks.values()):
            return base
        return resume.last_valid


class Check(Protocol):
    """Claims one thing. A pure function of the case: no process, clock or file."""

    @property
    def name(self) -> str: ...
    def __call__(self, case: Case) -> Verdict: ...
    def to_json(self) -> Mapping[str, Any]: ...


def unmeasured(name: str, case: Case) -> Verdict | None:
    """The verdict of a check that needs a reference and a record of steps, where there is none."""
    if case.reference is None:
        return inconclusive(name, "there is no reference to compare with", "reference-failed")
    if not case.timeline.starts:
        errors = [error for _, life in lives(case.history) for error in life.errors]
        why = f": {errors[0]}" if errors else ""
        # A job that never stepped is for `completed` to judge; here there is nothing to look at.
        return inconclusive(name, f"no optimizer step of the run was seen{why}", "probe-blind", errors=errors)
    return None
