"""Where this machine has its control groups: per controller, the hierarchy (v1 or v2) and the group to build on.

Controllers are called by their names in v2: `memory`, `cpu`, `io` (in v1: `blkio`). A machine may have some of them in
v1 and some in v2.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: The controllers that limits need.
CONTROLLERS = ("memory", "cpu", "io")
#: Their names in v1, where those differ.
_V1_NAMES = {"io": "blkio"}
#: The group that the processes move to which would keep a delegated group from having children.
LEAF = "chaoskit-harness"
#: Set by systemd on a group that it has delegated.
_DELEGATED = ("user.delegate", "trusted.delegate")


@dataclass(frozen=True)
class Hierarchy:
    """One hierarchy. `version` is 1 or 2, `controllers` are those of ours that it has, `mount` is its mount point and
    `own` the group of this process in it."""

    version: int
    controllers: tuple[str, ...]
    mount: Path
    own: Path

    def parent(self) -> Path | None:
        """The group below which a run may have groups of its own; None if there is none.

        In v1 it is our own group. In v2 only groups without processes can have limited children. It is the nearest
        group at or above our own that has none, or our own, if it was delegated to us: `prepare` empties it.
        """
        if self.version == 1:
            return self.own if os.access(self.own, os.W_OK) else None
        for group in _upward(self.own, self.mount):
            if not os.access(group / "cgroup.procs", os.W_OK) or not os.access(group, os.W_OK):
                return None
            if not self.controllers_of(group):
                continue
            if self.enabled(group) or not _processes(group) or (group == self.own and self._is_ours(group)):
                return group
        return None

    def prepare(self, group: Path) -> None:
        """Let the children of a group have limits. Raises OSError if the kernel does not allow it."""
        if self.version == 1 or self.enabled(group):
            return
        if group == self.own and _processes(group) and (group / "cgroup.events").exists():
            leaf = group / LEAF
            leaf.mkdir(exist_ok=True)
            while pids := _processes(group):
                for pid in pids:
                    with suppress(ProcessLookupError):
                        (leaf / "cgroup.procs").write_text(str(pid))
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in self.controllers))

    def enabled(self, group: Path) -> bool:
        """Whether the children of a group of v2 have our controllers."""
        return set(self.controllers) <= set(_read(group / "cgroup.subtree_control").split())

    def controllers_of(self, group: Path) -> bool:
        """Whether a group of v2 has our controllers itself."""
        return set(self.controllers) <= set(_read(group / "cgroup.controllers").split())

    def _is_ours(self, group: Path) -> bool:
        """Whether we may move the processes of a group: it was delegated, or is the topmost one that we can see."""
        if group == self.mount:
            return True
        for name in _DELEGATED:
            with suppress(OSError):
                if os.getxattr(group, name) == b"1":
                    return True
        return False


def hierarchies(
    wanted: Iterable[str] = CONTROLLERS,
    *,
    mounts: Path = Path("/proc/self/mountinfo"),
    own: Path = Path("/proc/self/cgroup"),
) -> tuple[Hierarchy, ...]:
    """The hierarchies that have the `wanted` controllers. A controller that none has is left out."""
    groups = dict(_own_groups(_read(own).splitlines()))
    found: list[Hierarchy] = []
    left = list(wanted)
    for version, names, root, mount in _mounted(_read(mounts).splitlines()):
        if version == 2:
            controllers = tuple(name for name in left if name in _read(mount / "cgroup.controllers").split())
            path = groups.get("")
        else:
            controllers = tuple(name for name in left if _V1_NAMES.get(name, name) in names)
            path = next((groups[name] for name in names if name in groups), None)
        if controllers and path is not None:
            found.append(Hierarchy(version, controllers, mount, _below(mount, root, path)))
            left = [name for name in left if name not in controllers]
    return tuple(found)


def _own_groups(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The paths of our own groups: by controller in v1, as "" in v2."""
    for line in lines:
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _mounted(lines: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...], str, Path]]:
    """The version, the controllers (in v1), the root and the mount point of every hierarchy that is mounted."""
    for line in lines:
        before, _, after = line.partition(" - ")
        _, _, _, root, mount, *_ = before.split(" ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            yield 2, (), root, Path(mount)
        elif kind == "cgroup":
            yield 1, tuple(options.strip().split(",")), root, Path(mount)


def _below(mount: Path, root: str, path: str) -> Path:
    """Where a group lies. In a container only a part of the hierarchy may be mounted."""
    inner = path.removeprefix(root) if root != "/" and path.startswith(root) else path
    here = mount / inner.lstrip("/")
    return here if here.is_dir() else mount


def _upward(group: Path, top: Path) -> Iterator[Path]:
    yield group
    while group != top and top in group.parents:
        group = group.parent
        yield group


def _processes(group: Path) -> list[int]:
    return [int(pid) for pid in _read(group / "cgroup.procs").split()]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
