"""`durable_once_published`: every part of a checkpoint is forced to disk (fsync) before the job relies on it."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.crash_model import unforced
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.protocol.io_journal import Journal, Operation
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
        settled = [one for one in case.checkpoints if one.settled_at is not None]
        if not settled:
            sentence = "no save was recorded that settled, so no checkpoint was published"
            return inconclusive(self.name, sentence, "probe-blind")
        times = [operation.t for operation in journal.operations]
        roots = _roots(case, journal)
        judged, since = [], 0
        for one in settled:
            upto = bisect_right(times, one.settled_at or 0.0)
            places = sorted(set(_places(journal, _names(one, roots), upto, since=since)))
            since = bisect_right(times, one.ended or 0.0)
            if not places:
                sentence = f"the journal shows no write below {{out}} for the save after step {one.position}"
                return inconclusive(self.name, sentence, "probe-blind", paths=sorted(one.paths))
            judged.append((one, [each for place in places for each in unforced(journal, upto=upto, under=place)]))
        lacking = [(one, found) for one, found in judged if found]
        if not lacking:
            sentence = f"all {len(judged)} checkpoints had been forced to disk (fsync) when the job went on"
            return passed(self.name, sentence, checkpoints=[one.position for one, _ in judged])
        one, found = lacking[0]
        words = "; ".join(
            dict.fromkeys(f"the {each.what} of {each.path} lacks an {each.missing}" for each in found[:3])
        )
        more = f", and {len(found) - 3} more" if len(found) > 3 else ""
        sentence = (
            f"the job relies on the checkpoint of step {one.position}, but a power cut could lose parts of it: "
            f"{words}{more}"
        )
        by_step = {one.position: [vars(each) for each in found] for one, found in lacking}
        return failed(self.name, sentence, "checkpoint-not-durable", unforced=by_step)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _roots(case: Case, journal: Journal) -> tuple[str, ...]:
    """The directory that the job had as `{out}` when it ran, and the same without symbolic links. The run may lie
    elsewhere today, so its present directory counts only where the record names none."""
    recorded = sorted({launch.out for launch in case.history.launches if launch.out})
    found = recorded or [str(journal.directory.parent / "out")]
    return tuple(
        dict.fromkeys(path for root in found for path in (os.path.normpath(root), os.path.realpath(root)))
    )


def _names(one: Checkpoint, roots: Sequence[str]) -> Iterator[str]:
    """The paths of a save relative to `{out}`, as the journal has them; none for what lies elsewhere."""
    for path in one.paths:
        for own in (os.path.normpath(path), os.path.realpath(path)):
            root = next((root for root in roots if _below(own, root)), None)
            if root is not None:
                yield os.path.relpath(own, root)
                break


def _places(journal: Journal, names: Iterable[str], upto: int, *, since: int) -> Iterator[str]:
    """Where the journal has, after `upto` operations, what was written under these names from operation `since` on."""
    operations = journal.operations[:upto]
    for name in names:
        for made in _made(operations[since:], name):
            if (place := _now(made, operations)) is not None:
                yield place


def _made(operations: Sequence[Operation], name: str) -> list[Operation]:
    """Return the operation that created the uppermost new directory for it; if there is none, the last write to each
    file."""
    above = [op for op in operations if op.kind == "mkdir" and _below(name, op.path)]
    if above:
        return [min(above, key=lambda op: len(op.path))]
    written = {op.file: op for op in operations if op.kind in ("create", "write") and _below(op.path, name)}
    return list(written.values())


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")


def _now(made: Operation, operations: Sequence[Operation]) -> str | None:
    """Return its name after all operations; None if it was removed."""
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


@check("checkpoint-not-durable")
def durable_once_published() -> Check:
    """A power cut loses no settled save: the data of each file, and each name on the path to it, were forced to disk
    (fsync of the file, fsync of its directory), as the weakest reading of POSIX requires.

    Fails with `checkpoint-not-durable`. Inconclusive where the storage was not watched: `chaos.run(job, fault,
    storage="watched")`. `chaoskit crash-states` shows what would happen to the job; see docs/how-to/crash-states.md.
    """
    return DurableOncePublished()
