"""`KeptOuts`: copies of the `{out}` of an uninterrupted run, made while all its ranks waited between two steps.

Files are copied, or cloned if the file system supports that (reflinks). A file that did not change since the previous
state is kept once, as a hard link between the two copies; a file of the job is never linked. Every file has a digest,
which is checked when it is copied back: an altered state is not used.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypedDict

from xxhash import xxh3_128

from chaoskit.engine.stored_json import read_json, write_json
from chaoskit.errors import StoreError
from chaoskit.files.private import make_directories
from chaoskit.files.removal import must_lie_in, remove
from chaoskit.schema import Count, Range, Seconds

#: The file that lists the states, beside their directories.
INDEX = "outs.json"
#: The share of the free disk that the states of one reference may take, and its limit in bytes.
SHARE, MOST = 0.1, 8 << 30
#: ioctl: share the blocks of another file (linux/fs.h).
_FICLONE = 0x40049409
_BLOCK = 1 << 20
#: Of two paths that were changed at least this many nanoseconds apart, the later one is also changed later in a state
#: that is put back. That takes at most this many waits of a millisecond.
APART_NS, MOST_WAITS = 20_000_000, 1000


class FileRecord(TypedDict):
    """A file of a kept state."""

    digest: str
    size: Count
    mtime_ns: int


class _StateTimes(TypedDict, total=False):
    times: Mapping[str, list[int]]


class StateRecord(_StateTimes):
    """One kept state. `save` is the position of its newest save, `at` that at which the ranks waited. `times` has when
    each path was written and changed last, in nanoseconds of the time of day. `t` is the time on the monotonic clock,
    `wall` the time of day in nanoseconds."""

    save: Annotated[int, Range(1, 2**53)]
    at: Annotated[int, Range(1, 2**53)]
    t: Seconds
    wall: Count
    files: Mapping[str, FileRecord]


class IndexRecord(TypedDict):
    """The content of outs.json."""

    out: str
    states: list[StateRecord]


@dataclass(frozen=True)
class OutState:
    """One state: the directory `path`, a copy of `out` as it was at time `t` (and at `wall` by the time of day), when
    all ranks had completed `at` steps and the save at position `save` had settled."""

    path: Path
    out: str
    save: int
    at: int
    t: float
    wall: int
    files: Mapping[str, FileRecord]
    times: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def verify(self) -> None:
        """Raises StoreError unless every file is what was kept."""
        for name, told in self.files.items():
            try:
                digest = _digest(self.path / name)
            except OSError as error:
                raise StoreError(
                    f"{self.path / name} cannot be read: {error}", path=str(self.path / name)
                ) from error
            if digest != told["digest"]:
                raise StoreError(f"{self.path / name} was altered since it was kept", path=str(self.path / name))

    def restore(self, out: Path) -> float:
        """Copy the state into an empty directory, with its times shifted to now (see `_set_times`). Returns this shift
        in seconds, which also applies to the times of its run. Raises StoreError if a file is not what was kept."""
        shift, shift_ns = time.monotonic() - self.t, time.time_ns() - self.wall
        for source in _walk(self.path):
            name = os.path.relpath(source, self.path)
            target = out / name
            if os.path.islink(source):
                os.symlink(os.readlink(source).replace(self.out, str(out)), target)
            elif os.path.isdir(source):
                target.mkdir()
            else:
                told = self.files.get(name)
                if told is None or _copy(Path(source), target) != told["digest"]:
                    raise StoreError(f"{source} was altered since it was kept", path=source)
                os.utime(target, ns=(told["mtime_ns"] + shift_ns,) * 2)
        missing = sorted(name for name in self.files if not (out / name).is_file())
        if missing:
            raise StoreError(f"{self.path / missing[0]} is gone", path=str(self.path / missing[0]))
        self._set_times(out, shift_ns)
        return shift

    def _set_times(self, out: Path, shift_ns: int) -> None:
        """Jobs look for the newest checkpoint by one of its times. So each path gets the time at which it was written.
        The time of the last change cannot be set, but what was changed later is changed later again."""
        latest, before, waits = 0, -math.inf, MOST_WAITS
        for name, (written, changed) in sorted(self.times.items(), key=lambda one: one[1][1]):
            target = out / name
            while True:
                os.utime(target, ns=(written + shift_ns,) * 2, follow_symlinks=False)
                now = os.lstat(target).st_ctime_ns
                # The clock of a file system is coarse.
                if now > latest or changed - before < APART_NS or not waits:
                    break
                waits -= 1
                time.sleep(0.001)
            latest, before = now, changed


@dataclass
class KeptOuts:
    """The states of the job's directory `out` that are kept in `root`. `unkept` says why no further states are kept,
    `full` whether that is for lack of room, `skipped` why one state is not kept."""

    root: Path
    out: str = ""
    states: list[OutState] = field(default_factory=list)
    unkept: str = ""
    full: bool = False
    skipped: str = ""
    _taken: int = field(default=0, init=False)

    @classmethod
    def read(cls, root: Path) -> KeptOuts:
        """The states that are listed; none if there is no list, or a damaged one."""
        try:
            content = read_json(root / INDEX, IndexRecord, missing="does not exist")
        except StoreError:
            return cls(root)
        states = [
            OutState(
                root / str(one["save"]),
                content["out"],
                one["save"],
                one["at"],
                one["t"],
                one["wall"],
                one["files"],
                one.get("times", {}),
            )
            for one in content["states"]
        ]
        return cls(root, content["out"], states)

    def before(self, step: int) -> OutState | None:
        """The newest state from which the job still takes step `step` itself; None if there is none."""
        return max((one for one in self.states if one.at < step), key=lambda one: one.at, default=None)

    def keep(self, out: Path, *, save: int, at: int) -> bool:
        """Keep what is in `out` now; False if there is no room for it, or it cannot be copied."""
        if self.unkept:
            return False
        self.out = str(out)
        path = self.root / str(save)
        make_directories(path)
        t, wall = time.monotonic(), time.time_ns()
        try:
            files, times = self._copy_all(out, path)
        except FileNotFoundError as error:
            remove(path, within=self.root)
            self.skipped = f"the state at step {save} changed as it was copied: {error}"
            return True
        except OSError as error:
            remove(path, within=self.root)
            self.unkept = f"the state at step {save} could not be kept: {error}"
            self.full = error.errno == errno.ENOSPC
            return False
        self.states.append(OutState(path, self.out, save, at, t, wall, files, times))
        return True

    def keep_only(self, saves: Collection[int]) -> None:
        """Remove the states of all other saves, so that there is room for further ones."""
        for one in self.states:
            if one.save not in saves:
                remove(one.path, within=self.root)
        self.states = [one for one in self.states if one.save in saves]
        # A file that several states share counts once.
        about = [os.lstat(one.path / name) for one in self.states for name in one.files]
        self._taken = sum({(one.st_dev, one.st_ino): one.st_size for one in about}.values())
        self.unkept, self.full = "", False

    def write(self) -> None:
        """Write the list of the states."""
        states = [
            {
                "save": one.save, "at": one.at, "t": one.t, "wall": one.wall, "files": dict(one.files),
                "times": {name: list(each) for name, each in one.times.items()},
            }
            for one in self.states
        ]  # fmt: skip
        write_json(self.root / INDEX, {"out": self.out, "states": states})

    def _copy_all(self, out: Path, path: Path) -> tuple[dict[str, FileRecord], dict[str, Sequence[int]]]:
        room = min(MOST, SHARE * shutil.disk_usage(self.root).free)
        known = self.states[-1] if self.states else None
        files: dict[str, FileRecord] = {}
        times: dict[str, Sequence[int]] = {}
        for source in _walk(out):
            name = os.path.relpath(source, out)
            target, about = path / name, os.lstat(source)
            times[name] = (about.st_mtime_ns, about.st_ctime_ns)
            if stat.S_ISLNK(about.st_mode):
                os.symlink(os.readlink(source), target)
            elif stat.S_ISDIR(about.st_mode):
                target.mkdir()
            elif not stat.S_ISREG(about.st_mode):
                raise OSError(errno.EINVAL, "neither a file nor a directory", source)
            elif known is not None and _same(known.files.get(name), about):
                os.link(known.path / name, target)
                files[name] = known.files[name]
            else:
                if self._taken + about.st_size > room:
                    raise OSError(errno.ENOSPC, f"the states would take more than {room / 2**30:.1f} GiB")
                digest = _copy(Path(source), target)
                self._taken += about.st_size
                files[name] = {"digest": digest, "size": about.st_size, "mtime_ns": about.st_mtime_ns}
        return files, times


def _same(told: FileRecord | None, about: os.stat_result) -> bool:
    """Whether a file is as it was in the previous state, by its size and time: between two saves a job takes longer
    than the resolution of the file system's clock."""
    return told is not None and (told["size"], told["mtime_ns"]) == (about.st_size, about.st_mtime_ns)


def _walk(top: Path) -> Iterator[str]:
    """Every path below a directory, a directory before its content; follows no link."""
    for directory, directories, names in os.walk(top, onerror=_raise):
        for name in sorted([*directories, *names]):
            yield os.path.join(directory, name)


def _raise(error: OSError) -> None:
    raise error


def _copy(source: Path, target: Path) -> str:
    """Copy a file, by reflink where that works; returns the digest of the copy."""
    with open(source, "rb") as read, open(target, "xb") as written:
        try:
            fcntl.ioctl(written.fileno(), _FICLONE, read.fileno())
        except OSError:
            shutil.copyfileobj(read, written, _BLOCK)
    os.chmod(target, stat.S_IMODE(os.stat(source).st_mode))
    return _digest(target)


def _digest(path: Path) -> str:
    found = xxh3_128()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def fresh(root: Path, *, within: Path) -> KeptOuts:
    """Remove older states, and return an empty list."""
    if root.parent.exists():
        must_lie_in(root, within)
    remove(root, within=within)
    make_directories(root)
    return KeptOuts(root)


def positions(saves: Sequence[int], *, steps: int, near: Sequence[int] = (), most: int = 48) -> list[int]:
    """The positions of the saves at which to keep a state: the first and the last ones, those just before each of the
    steps `near`, and others evenly, `most` in all. A save that is not followed by two steps is left out."""
    made = [save for save in saves if save + 2 <= steps]
    if len(made) <= most:
        return made
    wanted = {*made[:6], *made[-4:]}
    for step in near:
        wanted.update([save for save in made if save + 2 <= step][-2:])
    stride = len(made) / max(1, most - len(wanted))
    wanted.update(made[int(n * stride)] for n in range(max(0, most - len(wanted))))
    return sorted(wanted)
