"""`HostPaths`: where the daemon finds the files of a harness that may itself run in a container of that daemon."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from chaoskit.environments.agents.package_copy import copy_of
from chaoskit.environments.docker.daemon import Daemon, DaemonError, shared_daemon
from chaoskit.errors import UsageError


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
        return copy_of(path, store)


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
