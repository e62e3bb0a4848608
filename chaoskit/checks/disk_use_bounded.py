"""`disk_use_bounded`: interruptions make the job keep at most one more checkpoint on disk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.damage import Files
from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.validation import check_number
from chaoskit.verdict import Verdict, failed, inconclusive, passed

#: Logs of launches that failed, tracebacks: no job is accused of these.
SLACK = 65536


@dataclass(frozen=True)
class DiskUseBounded:
    """See `disk_use_bounded`."""

    margin: float
    name = "disk_use_bounded"

    def __call__(self, case: Case) -> Verdict:
        if case.reference is None or not all(control.files for control in case.reference.controls):
            return inconclusive(self.name, "there is no reference to compare with", "reference-failed")
        if not case.history.files:
            return inconclusive(self.name, "the files of the job were not listed", "probe-blind")
        usual = max(case.reference.controls, key=lambda control: _bytes(control.files[-1]["files"]))
        most = _bytes(usual.files[-1]["files"])
        one = _checkpoint(usual)
        limit = int(most * (1 + self.margin)) + (one or 0) + SLACK
        used = [_bytes(event["files"]) for event in case.history.files]
        facts = {"bytes": used, "uninterrupted": most, "checkpoint": one, "limit": limit}
        # A job that clears its checkpoints away at its end says nothing of how many it keeps until then.
        judged = used if one else used[-1:] if case.history.end == "finished" else []
        if not judged:
            sentence = "an uninterrupted run keeps no checkpoint at its end, so there is no limit to compare with"
            return inconclusive(self.name, sentence, "probe-blind", **facts)
        if max(judged) > limit:
            sentence = (
                f"the job kept {max(judged):,} bytes on disk; an uninterrupted run keeps {most:,}, and one "
                "checkpoint has "
                f"{one or 0:,}"
            )
            return failed(self.name, sentence, "disk-use-grows", **facts)
        sentence = f"the job kept at most {max(judged):,} bytes on disk; an uninterrupted run keeps {most:,}"
        return passed(self.name, sentence, **facts)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "margin": self.margin}


def _bytes(files: Files) -> int:
    return sum(size for _, size in files)


def _checkpoint(control: History) -> int | None:
    """Return the bytes of the largest checkpoint that the control keeps; None if it keeps none. If file names have no
    step numbers, all files count as one checkpoint."""
    saves = {save.n for _, lifetime in lifetimes(control) for save in lifetime.saves if save.n > 0}
    files = control.files[-1]["files"]
    sizes = {n: sum(size for name, size in files if n in map(int, re.findall(r"\d+", name))) for n in saves}
    numbered = max(sizes.values(), default=0)
    names = {name.rpartition("/")[2] for name, _ in files}
    kept = any(
        save.path.rpartition("/")[2] in names for _, lifetime in lifetimes(control) for save in lifetime.saves
    )
    return numbered or (_bytes(files) if kept else None)


@check("disk-use-grows")
def disk_use_bounded(*, margin: float = 0.1) -> Check:
    """At the end of every launch the job's directory holds at most the bytes of an uninterrupted run, plus the share
    `margin` of that, plus one checkpoint.

    Fails with `disk-use-grows`. Raises UsageError for a margin that is negative.
    """
    return DiskUseBounded(check_number("disk_use_bounded", "margin", margin, least=0))
