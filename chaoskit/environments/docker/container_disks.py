"""`ContainerDisks`: limits on the disk of containers, which root of this machine writes into their control groups."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaoskit.capabilities import LimitTarget
from chaoskit.environments.cgroups.disk import DiskLimit, device_of, disk_caused
from chaoskit.environments.cgroups.group import ControlGroup
from chaoskit.environments.cgroups.hierarchy import hierarchies
from chaoskit.environments.docker.container_limits import ContainerLimits
from chaoskit.environments.docker.container_nodes import ContainerNode
from chaoskit.environments.docker.host_paths import host_paths
from chaoskit.environments.machine.machine_run import MachineRun


class ContainerDisks(ContainerLimits):
    """Fulfils `CanLimitDisk`: the daemon itself cannot change the rate of a disk while a container runs."""

    run: MachineRun

    def __init__(self) -> None:
        ContainerLimits.__init__(self)
        self._disks: dict[int, DiskLimit] = {}

    def limit_disk(self, target: LimitTarget, *, rate: int) -> int:
        """See `CanLimitDisk`."""
        device = device_of(self.run.spec.out)
        node = self.limited_container(target)
        try:
            limit = DiskLimit(io_group(node), device=device, rate=rate)
        except OSError as error:
            raise LookupError(f"the kernel did not take the limit: {error}") from error
        self._disks[number := len(self._disks) + 1] = limit
        return number

    def disk_limited(self, limit: int) -> Mapping[str, Any]:
        """See `CanLimitDisk`."""
        return disk_caused(self._disks[limit])

    def lift_disk(self, limit: int) -> None:
        """See `CanLimitDisk`."""
        if limit in self._disks:
            self._disks[limit].lift()


def why_no_disk_limits() -> str | None:
    """None if the harness may write into the control groups of containers, else the reason and the remedy."""
    if os.geteuid() != 0 or host_paths().container:
        return "only root of the machine may limit the disk of a container: run chaoskit there as root"
    if not hierarchies(("io",)):
        return "no control group here has the controller io: mount the control groups"
    return None


def io_group(node: ContainerNode) -> ControlGroup:
    """The control group of a container that limits its disk. Raises LookupError unless it is that of this container
    alone."""
    found = hierarchies(("io",), own=Path(f"/proc/{node.pid}/cgroup"))
    if not found:
        raise LookupError(f"the control group of {node.name} is not mounted here")
    (hierarchy,) = found
    group = ControlGroup({hierarchy: hierarchy.own})
    if node.container not in str(hierarchy.own) or node.pid not in group.processes():
        raise LookupError(f"{hierarchy.own} is not the control group of {node.name} alone")
    return group
