"""`no_debris`: leftovers of interrupted saves do not accumulate over launches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.damage import Files, lies_at
from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, passed

#: What unfinished things are called.
TEMPORARY = re.compile(r"te?mp|partial|incomplete|unfinished|\.part$|~$|in[-_.]progress", re.IGNORECASE)
#: How many may be left at the end: the next save, or the next launch, may be the one that clears it away.
AT_MOST = 1


@dataclass(frozen=True)
class NoDebris:
    """See `no_debris`."""

    name = "no_debris"

    def __call__(self, case: Case) -> Verdict:
        if case.reference is None or not all(control.files for control in case.reference.controls):
            return inconclusive(self.name, "there is no reference to compare with", "reference-failed")
        if not case.history.files:
            return inconclusive(self.name, "the files of the job were not listed", "probe-blind")
        usual = {
            _pattern(place)
            for control in case.reference.controls
            for name, _ in control.files[-1]["files"]
            for place in _places(name)
        }
        unfinished = _unfinished(case.history)
        left = [_debris(event["files"], usual, unfinished) for event in case.history.files]
        counts = [len(names) for names in left]
        if counts[-1] > AT_MOST:
            shown = ", ".join(left[-1][:3])
            sentence = (
                f"{counts[-1]} leftovers of interrupted saves at the end that an uninterrupted run does not leave: "
                f"{shown}{', ...' if counts[-1] > 3 else ''}"
            )
            return failed(self.name, sentence, "debris-left", counts=counts, left=left[-1][:20])
        sentence = f"{counts[-1] or 'no'} leftover{'' if counts[-1] == 1 else 's'} of interrupted saves at the end"
        return passed(self.name, sentence, counts=counts, left=left[-1])

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _debris(files: Files, usual: set[str], unfinished: set[str]) -> list[str]:
    """Return the files, or their directories, whose kind an uninterrupted run does not leave, and which an unfinished
    save wrote or whose name says that they are temporary."""
    found: dict[str, None] = {}
    for name, _ in files:
        own = next((place for place in _places(name) if _pattern(place) not in usual), None)
        if own is not None and (TEMPORARY.search(own) or any(lies_at(path, [(name, 0)]) for path in unfinished)):
            found[own] = None
    return list(found)


def _places(name: str) -> Iterator[str]:
    """A file and the directories that it lies in, the outermost first."""
    parts = PurePosixPath(name).parts
    return ("/".join(parts[:at]) for at in range(1, len(parts) + 1))


def _pattern(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _unfinished(history: History) -> set[str]:
    """Return the paths of saves that did not end, or failed."""
    return {
        save.path
        for _, lifetime in lifetimes(history)
        for save in lifetime.saves
        if save.ended is None or not save.ok
    }


@check("debris-left")
def no_debris() -> Check:
    """Temporary files and directories of interrupted saves do not accumulate: at the end of the last launch there is
    at most one more than after an uninterrupted run.

    Fails with `debris-left`. They are recognised by the paths of saves that did not end, and by names such as 'tmp'.
    """
    return NoDebris()
