"""The owner of a run's files: the harness that made them, as written into `run.json` and `owner.json`."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process


def current() -> dict[str, Any]:
    """This process, as an owner: `{"pid", "start" (clock ticks since the boot), "host", "boot"}`."""
    me = processes.identify(os.getpid())
    host, boot = socket.gethostname(), boot_id()
    return {"pid": os.getpid(), "start": me.started if me else 0, "host": host, "boot": boot}


def boot_id() -> str:
    """The kernel's name for the time since this machine was started; "" where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_dead(owner: Any) -> bool:
    """Whether `owner` is known to have ended, if only because the machine was started again since. False for what is
    not an owner, and for an owner on another host."""
    if not isinstance(owner, dict) or owner.get("host", socket.gethostname()) != socket.gethostname():
        return False
    pid, start = owner.get("pid"), owner.get("start")
    if type(pid) is not int or type(start) is not int:
        return False
    rebooted = bool(boot_id()) and owner.get("boot", boot_id()) != boot_id()
    return rebooted or processes.state(Process(pid, start)) == "gone"
