"""`Case`: the record of a run and its reference, with the facts that several checks and reports need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.checkpoints.checkpoints import checkpoints
from chaoskit.analysis.checkpoints.resumes import Resume, resumes
from chaoskit.analysis.comparison import Comparison, compare
from chaoskit.analysis.corruption.propagation import Propagation, propagations
from chaoskit.analysis.corruption.skipped_batches import SkippedBatches, skipped_batches
from chaoskit.analysis.data_ledger import Ledger, ledger
from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.probe_errors import ProbeError, probe_errors
from chaoskit.analysis.recovery.emergency import Emergency, emergencies
from chaoskit.analysis.recovery.recovery import Recovery, recoveries
from chaoskit.analysis.recovery.throughput import Throughput, throughput
from chaoskit.analysis.reference.reference import Reference
from chaoskit.protocol.io_journal import Journal


@dataclass(frozen=True)
class Watched:
    """The first and the last step that a run in a window took itself.

    If the job finished with exit code 0, `last` is the last step of the reference, even if the job skipped some.
    """

    first: int
    last: int


@dataclass(frozen=True)
class Case:
    """A run with its reference. Each fact that several checks need is computed once.

    `journal` has the job's file operations, if its storage was watched.
    """

    history: History
    reference: Reference | None = None
    journal: Journal | None = None

    @cached_property
    def probe_errors(self) -> tuple[ProbeError, ...]:
        """The errors of the probe that may have spoilt a part of the record, of the controls too."""
        return probe_errors(self.history, self.reference.controls if self.reference is not None else ())

    @cached_property
    def timeline(self) -> Timeline:
        """The steps of the run under their true numbers."""
        return Timeline(self.history, self.reference)

    @cached_property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Every checkpoint that the job began to write past position 0, in that order."""
        return checkpoints(self.history, self.timeline)

    @cached_property
    def resumes(self) -> tuple[Resume, ...]:
        """Every time that the job took steps again after a fault. That a run in a window begins by resuming from a kept
        state is chaoskit's doing, and proves nothing of the job."""
        found = resumes(self.history, self.timeline, self.checkpoints)
        first = self.history.window.first_launch if self.history.window is not None else 0
        own = found and self.history.incarnations[found[0].before].launch < first
        return found[1:] if own else found

    @cached_property
    def recoveries(self) -> tuple[Recovery, ...]:
        """The measures of every observed fault."""
        return recoveries(self.history, self.timeline, self.checkpoints)

    @cached_property
    def emergencies(self) -> tuple[Emergency, ...]:
        """What the job made of every observed notice that its node would be taken away."""
        return emergencies(self.history, self.timeline, self.checkpoints, self.recoveries)

    @cached_property
    def throughput(self) -> tuple[Throughput, ...]:
        """The pace of each rank, during each fault that lasted and outside of them."""
        return throughput(self.history)

    @cached_property
    def comparison(self) -> Comparison:
        """Every executed step beside the reference's; empty without a reference."""
        return compare(self.timeline, self.reference) if self.reference is not None else Comparison()

    @cached_property
    def propagations(self) -> tuple[Propagation, ...]:
        """The propagation of every number that a fault corrupted; empty without a reference."""
        return propagations(self.timeline) if self.reference is not None else ()

    @cached_property
    def skipped_steps(self) -> tuple[int, ...]:
        """The steps of the reference whose batches the job skipped after a rollback, if nothing else was wrong with
        the data."""
        found = self._skipped.values()
        return tuple(sorted({step for one in found if one is not None and not one.code for step in one.steps}))

    def skipped_batches(self, propagation: Propagation) -> SkippedBatches | None:
        """Return the batches that the job skipped after it rolled back because of a bad number (see
        `skipped_batches`)."""
        return self._skipped[propagation.corruption.fault]

    @cached_property
    def _skipped(self) -> dict[int, SkippedBatches | None]:
        return {
            propagation.corruption.fault: skipped_batches(self.timeline, propagation)
            for propagation in self.propagations
        }

    @cached_property
    def ledger(self) -> Ledger | None:
        """The consumed data compared with the data that was due; None without a reference that shows it."""
        return ledger(self.timeline, self.reference) if self.reference is not None else None

    @cached_property
    def watched(self) -> Watched | None:
        """The steps that the run took itself, if it was run in a window; None for any other, or if it took none."""
        window, incarnations = self.history.window, self.history.incarnations
        if window is None:
            return None
        ends = {incarnations[-1].index: window.end} if incarnations and window.end is not None else {}
        spans = [
            (base + 1, ends.get(inc.index) or base + max(lifetime.reached for lifetime in inc.ranks.values()))
            for inc in incarnations
            if inc.launch >= window.first_launch and (base := self.timeline.base(inc.index)) is not None
        ]
        if not spans:
            return None
        first, last = min(first for first, _ in spans), max(last for _, last in spans)
        launches = self.history.launches
        finished = self.trained_to_end and launches and launches[-1].code == 0
        return Watched(first, max(last, window.of) if finished else last)

    @property
    def trained_to_end(self) -> bool:
        """Whether nothing in this history follows from the reference: the run was not ended in its window."""
        return self.history.window is None or self.history.window.end is None

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
        """Return the position at which every component should be after this resume: that of the checkpoint that the
        job loaded. Whether it should have loaded another one is judged by `resumed_from_last_valid`."""
        start = self.timeline.starts[resume.incarnation]
        base = start.base
        if base is None:
            return resume.last_valid
        written = base in resume.acceptable or any(one.position == base for one in resume.seen)
        if written or any(own.trusted(base) for own in start.ranks.values()):
            return base
        return resume.last_valid
