"""`About`: what a daemon says of itself, for `chaoskit doctor`: its version, its cgroups, its limits."""

from __future__ import annotations

import grp
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.docker.daemon import Daemon

SOCKET = "unix:///var/run/docker.sock"
#: Limits that a daemon may lack: as `docker info` names them, and what needs them.
LIMITS = {
    "MemoryLimit": "limits of memory",
    "CpuCfsQuota": "limits of the CPU",
}


def maps_users(info: Mapping[str, Any]) -> bool:
    """Whether a daemon, by its answer to `/info`, gives the users of containers other uids on this machine."""
    options = [str(one) for one in info.get("SecurityOptions") or ()]
    return any(name in one for one in options for name in ("name=rootless", "name=userns"))


@dataclass(frozen=True)
class About:
    """`cgroups` is "1" or "2"; a `rootless` daemon runs as an ordinary user; `lacks` are limits that it cannot set."""

    version: str
    cgroups: str
    rootless: bool
    storage: str
    lacks: tuple[str, ...] = ()

    @classmethod
    def of(cls, version: str, info: Mapping[str, Any]) -> About:
        """Read the answer to `/info`. Daemons before 20.10 do not name the version of their cgroups: it was 1."""
        return cls(
            version=version,
            cgroups=str(info.get("CgroupVersion") or "1"),
            rootless=any("name=rootless" in str(one) for one in info.get("SecurityOptions") or ()),
            storage=str(info.get("Driver") or "unknown"),
            lacks=tuple(what for name, what in LIMITS.items() if info.get(name) is False),
        )

    def __str__(self) -> str:
        how = "rootless" if self.rootless else "as root"
        return f"{self.version}, {how}, cgroup v{self.cgroups}, storage {self.storage}"

    @property
    def remedy(self) -> str:
        """How to get the limits that are missing; empty if none is."""
        if not self.lacks:
            return ""
        way = (
            "delegate the controllers cpu and memory to your user (systemd: Delegate=yes for user@.service)"
            if self.rootless
            else "start the kernel with cgroup_enable=memory, or move to cgroup v2"
        )
        return f"it cannot set {' and '.join(self.lacks)}, so faults that need them are skipped: {way}"


def socket_group(address: str = "") -> str:
    """Name the group that may use the daemon's socket: "group docker (gid 998)"; empty if there is no socket."""
    path = (address or os.environ.get("DOCKER_HOST") or SOCKET).removeprefix("unix://")
    try:
        gid = os.stat(path).st_gid
    except OSError:
        return ""
    try:
        return f"group {grp.getgrgid(gid).gr_name} (gid {gid})"
    except KeyError:
        return f"gid {gid}"  # in a container, which does not have the groups of the host


def ask() -> About:
    """Ask the daemon. Raises UsageError with the remedy if none can be used, ChaoskitError if it goes away."""
    daemon = Daemon()
    try:
        with daemon.doing("ask the daemon about itself") as client:
            return About.of(daemon.version, client.info())
    finally:
        daemon.close()
