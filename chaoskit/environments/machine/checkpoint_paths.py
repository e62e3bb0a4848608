"""Where the saves of a run lie now, below `{out}`: the files and directories that they wrote, and nothing beside them.

A job may rename what it has saved. A file keeps its size and the time of its last change, so that it is found again. A
directory that a save has to itself counts as a whole, with the manifest that the job put into it. Of a directory that
several saves share, only their own files count: what else lies there is the job's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, starmap
from pathlib import Path

from chaoskit.analysis.record.rank_lifetime import Save
from chaoskit.environments.machine.stored_checkpoints import MadeSave, below, owners, saves


def checkpoint_paths(run_dir: Path, out: Path) -> tuple[str, ...]:
    """The files and directories of saves below `out`, none of them inside another. Raises LookupError if there are
    none."""
    every = saves(run_dir)
    root = os.path.realpath(out)
    tree = _Tree(root)
    found = {id(made): {path for _, call in made.calls for path in tree.places(made, call)} for made in every}
    unrecorded = [made for made in every if not found[id(made)] and _is_unrecorded(made)]
    for name, owner in owners(every, out) if unrecorded else ():
        if owner in unrecorded:
            found[id(owner)].add(os.path.join(root, name))
    shared = _shared(every, found)
    units = {_unit(path, root, shared) for paths in found.values() for path in paths}
    outermost = {path for path in units if not any(_inside(path, other) for other in units)}
    if not outermost:
        raise LookupError("no checkpoint has been saved yet, or none is left")
    return tuple(sorted(os.path.relpath(path, root) for path in outermost))


class _Tree:
    """The files and directories below `root`, with the sizes of files and the times of their last change."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.files: dict[str, tuple[int, float]] = {}
        self.directories: list[str] = []
        since = time.time() - time.monotonic()
        for place, directories, names in os.walk(root):
            self.directories += [os.path.join(place, name) for name in directories]
            for path in (os.path.join(place, name) for name in names):
                if os.path.isfile(path) and not os.path.islink(path):
                    about = os.stat(path)
                    self.files[path] = about.st_size, about.st_mtime_ns / 1e9 - since

    def places(self, made: MadeSave, call: Save) -> Iterator[str]:
        """Where that call's work lies: at its path, and wherever it was moved or copied to."""
        own = os.path.realpath(call.path)
        if own == self.root:
            inside = {os.path.join(own, name): size for name, size in call.files.items()}
            yield from (path for path, size in inside.items() if self._is(path, size, made))
            return
        if os.path.lexists(own) and below(self.root, own):
            yield own
        if "" in call.files:
            size = call.files[""]
            alike = [path for path in self.files if self._is(path, size, made)]
            # A job may add something to the file before it moves it.
            yield from alike or [path for path in self.files if self._is(path, size, made, grown=True)]
        elif call.files:
            yield from (place for place in self.directories if self._holds(place, call.files, made))

    def _holds(self, place: str, files: Mapping[str, int], made: MadeSave) -> bool:
        return all(self._is(os.path.join(place, name), size, made) for name, size in files.items())

    def _is(self, path: str, size: int, made: MadeSave, *, grown: bool = False) -> bool:
        about = self.files.get(path)
        return about is not None and (about[0] == size or (grown and about[0] > size)) and made.covers(about[1])


def _is_unrecorded(made: MadeSave) -> bool:
    """Whether the record lacks what this save wrote, so that only the time tells."""
    return any(call.ok and call.ended is not None and not call.files for _, call in made.calls)


def _shared(every: Iterable[MadeSave], found: Mapping[int, Iterable[str]]) -> set[str]:
    """The directories into which several saves wrote files. One into which a later incarnation wrote the same files
    again is not shared: it is the same checkpoint, made again."""
    wrote: dict[str, list[tuple[int, set[str]]]] = {}
    for made in every:
        here: dict[str, set[str]] = {}
        for path in {*made.paths, *found[id(made)]}:
            here.setdefault(os.path.dirname(path), set()).add(os.path.basename(path))
        for place, names in here.items():
            wrote.setdefault(place, []).append((made.incarnation.index, names))
    return {place for place, many in wrote.items() if any(starmap(_apart, combinations(many, 2)))}


def _apart(one: tuple[int, set[str]], other: tuple[int, set[str]]) -> bool:
    """Whether these cannot be the same checkpoint. One that was interrupted lacks files."""
    (incarnation, names), (another, others) = one, other
    return incarnation == another or not (names <= others or others <= names)


def _unit(path: str, root: str, shared: set[str]) -> str:
    """The directory that the file has for its save alone; the path itself if there is none."""
    place = os.path.dirname(path)
    return path if os.path.isdir(path) or place == root or place in shared else place


def _inside(path: str, other: str) -> bool:
    return path != other and path.startswith(other + os.sep)
