"""Whether a run may have control groups on this machine, found out by making one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from chaoskit.environments.cgroups.group import ControlGroup, remove
from chaoskit.environments.cgroups.hierarchy import CONTROLLERS, hierarchies

#: What an ordinary user runs to have a group of their own.
DELEGATE = "systemd-run --user --scope -p Delegate=yes chaoskit run ..."


def why_no_limits(wanted: Sequence[str] = CONTROLLERS) -> str | None:
    """None if a run may limit what the `wanted` controllers control, else the reason and the remedy."""
    found = hierarchies(wanted)
    here = [name for each in found for name in each.controllers]
    if missing := [name for name in wanted if name not in here]:
        return (
            f"no control group here has the controller {', '.join(missing)}: mount the control groups, or in a "
            "container start it with --cgroupns=private and a writable /sys/fs/cgroup"
        )
    for each in found:
        parent = each.parent()
        if parent is None:
            return f"control groups cannot be made in {each.own}: {_remedy(each.version)}"
        try:
            each.prepare(parent)
            group = ControlGroup({each: parent / f"chaoskit-trial-{os.getpid()}"}).make()
        except OSError as error:
            return f"control groups cannot be made in {parent} ({error.strerror}): {_remedy(each.version)}"
        remove(next(iter(group.places.values())))
    return None


def _remedy(version: int) -> str:
    if os.geteuid() == 0:
        return "mount /sys/fs/cgroup writable"
    if version == 1:
        return (
            f"run as root, or boot with control groups v2 (systemd.unified_cgroup_hierarchy=1) and run: {DELEGATE}"
        )
    return f"run as root, or, where systemd delegates control groups, with: {DELEGATE}"
