"""What happened to checkpoints after they were written: altered by a fault, overwritten, removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.analysis.record.paths import above, numbers_in

Files = Sequence[Sequence[Any]]


def damaged_by(history: History, written: Sequence[Checkpoint], until: float) -> tuple[Checkpoint, ...]:
    """The checkpoints whose files a fault had altered by then and nobody had put back, as its evidence says."""
    found: dict[Checkpoint, None] = {}
    for fault in _altering(history, until):
        healed = fault.healed is not None and fault.healed <= until
        mended = fault.evidence.get("mended", ()) if healed else ()
        own = [save for save in saves_of(fault) if save not in mended]
        found.update(dict.fromkeys(one for one in written if _is_one(history, one, own)))
        if own:
            found.update(dict.fromkeys(one for one in written if _shares_a_file(one, fault)))
    return tuple(found)


def gone_by(history: History, written: Sequence[Checkpoint], until: float) -> tuple[Checkpoint, ...]:
    """The intact checkpoints that a fault, which listed all of them, did not find any more."""
    found: dict[Checkpoint, None] = {}
    for fault in _altering(history, until):
        if "spared" not in fault.evidence or fault.applied is None:
            continue
        there = [*saves_of(fault), *fault.evidence["spared"]]
        before = [one for one in written if one.complete and one.ended is not None and one.ended <= fault.applied]
        found.update(dict.fromkeys(one for one in before if not _is_one(history, one, there)))
    return tuple(found)


def saves_of(fault: FaultRecord) -> Sequence[Mapping[str, int]]:
    """The saves whose files the fault has altered."""
    one = fault.evidence.get("save")
    return [one] if isinstance(one, Mapping) else fault.evidence.get("saves", ())


def altered_files(history: History, until: float) -> tuple[PurePosixPath, ...]:
    """The files of checkpoints, below `{out}`, that faults had altered by then."""
    files = (one["file"] for fault in _altering(history, until) for one in fault.evidence.get("files", ()))
    return tuple(dict.fromkeys(map(PurePosixPath, files)))


def holds(path: str, file: PurePosixPath) -> bool:
    """Whether a path ends in that of a file below `{out}`, or of a directory that it is in."""
    parts = PurePosixPath(path).parts
    return any(parts[-len(own.parts) :] == own.parts for own in (file, *file.parents[:-1]))


def _altering(history: History, until: float) -> Iterator[FaultRecord]:
    for fault in history.faults:
        if fault.applied is not None and fault.applied <= until and saves_of(fault):
            yield fault


def _is_one(history: History, one: Checkpoint, saves: Iterable[Mapping[str, int]]) -> bool:
    """Whether the checkpoint is one of these saves."""
    inc = history.incarnations[one.incarnation]
    # A save is known by how many steps its process had taken.
    here = [save for save in saves if (inc.launch, inc.restart) == (save["launch"], save["restart"])]
    own = [save["n"] - inc.taken for save in here]
    # Every save may go to one path, a temporary name: the call must be one of those that made this checkpoint.
    until = one.ended if one.ended is not None else float("inf")
    calls = (each for lifetime in inc.ranks.values() for each in lifetime.saves if each.path in one.paths)
    return any(each.n in own and one.begun <= each.begun <= until for each in calls)


def _shares_a_file(one: Checkpoint, fault: FaultRecord) -> bool:
    """Whether an altered file lies where this checkpoint was written to before: it has lost that file."""
    altered = [(entry["file"], 0) for entry in fault.evidence.get("files", ())]
    earlier = fault.applied is not None and one.begun < fault.applied
    return earlier and any(lies_at(path, altered) for path in one.paths)


def destroyed(history: History, valid: Checkpoint | None, seen: Sequence[Checkpoint]) -> bool:
    """Whether an unfinished save was written over that checkpoint."""
    if valid is None:
        return False
    unfinished = {
        path
        for one in seen
        if one.begun > valid.begun and not one.complete
        for path in unfinished_paths(history, one)
    }
    # A job that loads from other paths than it saves to renames what it has written: then a common temporary name
    # destroys nothing.
    saved = {path for one in seen for path in one.paths}
    loaded = {load.path for _, lifetime in lifetimes(history) for load in lifetime.loads}
    return bool(unfinished & valid.paths) and (not loaded or bool(loaded & saved))


def removed(history: History, valid: int, seen: Sequence[Checkpoint], until: float) -> bool:
    """Whether the files that lay in the job's directory show it, where the numbers of steps are part of their names."""
    listed = [event for event in history.files if event.t <= until]
    return bool(listed) and is_left(valid, seen, listed[-1]["files"]) is False


def is_left(position: int, seen: Sequence[Checkpoint], files: Files) -> bool | None:
    """Whether anything of the checkpoint at that position is among the files, by the number in their names; None if
    these do not tell."""
    place = above([path for one in seen for path in one.paths])
    numbered = [
        position in numbers_in(path, below=place) for one in seen if one.position == position for path in one.paths
    ]
    left = {number for path, _ in files for number in numbers_in(path)}
    others = (path for one in seen if one.position != position for path in one.paths)
    if not position or not any(numbered) or any(position in numbers_in(path, below=place) for path in others):
        return None
    if position in left:
        return True
    # What was saved under a name without a number may be what is left.
    named = {
        one.position for one in seen if all(one.position in numbers_in(path, below=place) for path in one.paths)
    }
    return False if all(numbered) and left & named else None


def lies_at(path: str, files: Files) -> bool:
    """Whether there is a file, or a directory with files in it, at the end of that path."""
    there = {str(place) for name, _ in files for place in (PurePosixPath(name), *PurePosixPath(name).parents)}
    parts = PurePosixPath(path).parts
    return any("/".join(parts[at:]) in there for at in range(len(parts)))


def unfinished_paths(history: History, one: Checkpoint) -> Iterator[str]:
    """The paths whose writing was begun and not finished."""
    for lifetime in history.incarnations[one.incarnation].ranks.values():
        for save in lifetime.saves:
            if save.path in one.paths and (save.ended is None or not save.ok):
                yield save.path
