"""The owner of a run's files: the harness that made them, as written into `run.json` and `owner.json`."""

from __future__ import annotations

import os
import socket
from typing import Any

from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process


def current() -> dict[str, Any]:
    """This process, as an owner: `{"pid", "start" (clock ticks), "host"}`."""
    me = processes.identify(os.getpid())
    return {"pid": os.getpid(), "start": me.started if me else 0, "host": socket.gethostname()}


def is_dead(owner: Any) -> bool:
    """Whether `owner` is known to have ended. False for what is not an owner, and for an owner on another host."""
    if not isinstance(owner, dict) or owner.get("host", socket.gethostname()) != socket.gethostname():
        return False
    pid, start = owner.get("pid"), owner.get("start")
    if type(pid) is not int or type(start) is not int:
        return False
    return processes.state(Process(pid, start)) == "gone"
