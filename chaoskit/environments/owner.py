"""The owner of what lies about: the harness that made it, as it is written into `run.json` and `owner.json`."""

from __future__ import annotations

import os
import socket
from typing import Any

from chaoskit.capabilities import Process
from chaoskit.environments import processes


def current() -> dict[str, Any]:
    """This process, as an owner: `{"pid", "start" (clock ticks), "host"}`."""
    me = processes.identify(os.getpid())
    return {"pid": os.getpid(), "start": me.started if me else 0, "host": socket.gethostname()}


def is_dead(owner: Any) -> bool:
    """Whether `owner` is known to be dead. What is no owner, or one of another host, is not known to be."""
    if not isinstance(owner, dict) or owner.get("host", socket.gethostname()) != socket.gethostname():
        return False
    pid, start = owner.get("pid"), owner.get("start")
    if type(pid) is not int or type(start) is not int:
        return False
    return processes.state(Process(pid, start)) == "gone"
