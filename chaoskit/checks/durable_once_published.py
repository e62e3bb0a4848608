"""`durable_once_published`: what a checkpoint consists of had been forced to the disk once the job counted on it."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.checkpoints import Checkpoint, checkpoints
from chaoskit.checks.check import Case, Check
from chaoskit.crash import unforced
from chaoskit.journal import Journal, Operation
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class DurableOncePublished:
    """See `durable_once_published`."""

    name = "durable_once_published"

    def __call__(self, case: Case) -> Verdict:
        journal = case.journal
        if journal is None:
            sentence = "the storage of this run was not watched: run it with storage='watched'"
            return inconclusive(self.name, sentence, "probe-blind")
        settled = [one for one in checkpoints(case.history, case.timeline) if one.settled_at is not None]
        if not settled:
            return inconclusive(self.name, "no save was seen to settle, so nothing was published", "probe-blind")
        times = [operation.t for operation in journal.operations]
        judged, since = [], 0
        for one in settled:
            upto = bisect_right(times, one.settled_at or 0.0)
            places = sorted(set(_places(journal, one, upto, since=since)))
            since = bisect_right(times, one.ended or 0.0)
            if not places:
                sentence = f"of the save after step {one.position} nothing was seen below {{out}}"
                return inconclusive(self.name, sentence, "probe-blind", paths=sorted(one.paths))
            judged.append((one, [each for place in places for each in unforced(journal, upto=upto, under=place)]))
        lacking = [(one, found) for one, found in judged if found]
        if not lacking:
            sentence = f"all of {len(judged)} checkpoints had been forced to the disk when the job went on"
            return passed(self.name, sentence, checkpoints=[one.position for one, _ in judged])
        one, found = lacking[0]
        words = "; ".join(
            dict.fromkeys(f"the {each.what} of {each.path} lacks an {each.missing}" for each in found[:3])
        )
        more = f", and {len(found) - 3} more" if len(found) > 3 else ""
        sentence = (
            f"the job counts on the checkpoint of step {one.position}, and a power cut would lose what it consists of: "
            f"{words}{more}"
        )
        told = {one.position: [vars(each) for each in found] for one, found in lacking}
        return failed(self.name, sentence, "checkpoint-not-durable", unforced=told)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _places(journal: Journal, one: Checkpoint, upto: int, *, since: int) -> Iterator[str]:
    """Where lies, after `upto` operations, what was written to the paths of a save from operation `since` on; relative
    to `{out}`, as the journal's own paths."""
    root = os.path.realpath(journal.directory.parent / "out")
    operations = journal.operations[:upto]
    for path in one.paths:
        name = os.path.relpath(os.path.realpath(path), root)
        for made in _made(operations[since:], name):
            if (place := _now(made, operations)) is not None:
                yield place


def _made(operations: Sequence[Operation], name: str) -> list[Operation]:
    """What made the uppermost directory that was made for it; where none was, what last wrote to each file."""
    above = [op for op in operations if op.kind == "mkdir" and _below(name, op.path)]
    if above:
        return [min(above, key=lambda op: len(op.path))]
    written = {op.file: op for op in operations if op.kind in ("create", "write") and _below(op.path, name)}
    return list(written.values())


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")


def _now(made: Operation, operations: Sequence[Operation]) -> str | None:
    """The name by which it goes in the end; None if it is gone."""
    name: str | None = made.path
    for operation in operations[made.n + 1 :]:
        if name is None:
            return None
        if operation.kind in ("unlink", "rmdir") and operation.path == name:
            name = None
        elif operation.kind == "rename" and operation.to is not None:
            name = _renamed(name, operation.path, operation.to, operation.exchange)
    return name


def _renamed(name: str, old: str, new: str, exchange: bool) -> str | None:
    for before, after in ((old, new), (new, old) if exchange else (old, new)):
        if _below(name, before):
            return after + name[len(before) :]
    # What bore the new name before is gone.
    return None if name == new and not exchange else name


def durable_once_published() -> Check:
    """When a save had settled, a power cut would not have lost it: each file's data, and each name on the way to it,
    had been forced to the disk (fsync of the file, fsync of its directory), as POSIX at its weakest demands.

    Fails with `checkpoint-not-durable`. Inconclusive where the storage was not watched: `chaos.run(job, fault,
    storage="watched")`. `chaoskit crash-states` says what would become of the job; see docs/crash-states.md.
    """
    return DurableOncePublished()
