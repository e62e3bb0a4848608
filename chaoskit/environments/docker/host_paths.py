"""`HostPaths`: where the daemon finds the files of a harness that may itself run in a container of that daemon."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from chaoskit.environments.docker.daemon import Daemon, DaemonError, shared_daemon
from chaoskit.environments.launch import surroundings
from chaoskit.environments.launch.rank_modules import PACKAGE
from chaoskit.errors import UsageError

#: Where a store keeps a copy of chaoskit for containers, if the daemon cannot see the one that runs.
COPIES = "for-containers"


class HostPaths:
    """`container` is the id of the container that this process runs in, "" on the machine of the daemon itself;
    `mounts` are those of that container, as the daemon describes them."""

    def __init__(self, container: str = "", mounts: Sequence[Mapping[str, Any]] = ()) -> None:
        self.container = container
        found = [
            (PurePosixPath(each["Destination"]), str(each["Source"])) for each in mounts if each.get("Source")
        ]
        self._mounts = sorted(found, key=lambda pair: len(pair[0].parts), reverse=True)

    def find(self, path: str) -> str | None:
        """Where the daemon finds a file of ours; None if it cannot."""
        if not self.container:
            return path
        pure = PurePosixPath(path)
        for target, source in self._mounts:
            if pure == target or target in pure.parents:
                return str(PurePosixPath(source, pure.relative_to(target)))
        return None

    def source(self, path: str) -> str:
        """The same; raises UsageError if it cannot."""
        found = self.find(path)
        if found is None:
            raise UsageError(
                f"chaoskit runs in a container, and {path} is not mounted from the machine of the Docker daemon: mount "
                "it, or choose a mounted directory (--dir for the runs)"
            )
        return found

    def copy_of(self, path: Path, store: Path | None) -> Path:
        """A file or directory of ours that the daemon can see: itself, or a copy in `store`, made once."""
        if self.find(str(path)) is not None:
            return path
        if store is None:
            raise UsageError(f"chaoskit runs in a container, and the Docker daemon cannot see {path}: give --dir")
        stamp = [[str(each), each.stat().st_mtime_ns] for each in sorted(PACKAGE.rglob("*.py"))]
        copy = store / COPIES / surroundings.digest(stamp) / path.name
        if not copy.exists():
            draft = copy.with_name(f"{path.name}-{os.getpid()}")
            draft.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, draft, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(path, draft)
            try:
                os.rename(draft, copy)
            except OSError:  # somebody else was faster
                shutil.rmtree(draft, ignore_errors=True)
        return copy


def look(daemon: Daemon) -> HostPaths:
    """Find out whether this process runs in a container of the daemon: Docker names a host after its container."""
    name = socket.gethostname()
    if not Path("/.dockerenv").exists():
        return HostPaths()
    try:
        with daemon.doing("look at the container that chaoskit runs in") as client:
            about = client.inspect_container(name)
    except DaemonError as error:
        if error.status == 404:
            return HostPaths()
        raise
    return HostPaths(str(about["Id"]), about.get("Mounts") or ())


@cache
def host_paths() -> HostPaths:
    """The one of this process."""
    return look(shared_daemon())
