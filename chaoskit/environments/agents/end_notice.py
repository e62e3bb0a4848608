"""`EndNotice`: the SIGTERM that a container gets before it is killed, as its first process passes it on to the job.

Standard library only: it runs in the agent of a node.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process

#: Seconds between two looks at the job.
_LOOK = 0.02
#: Seconds that the harness has to hear of the end of the job, and seconds for the keeper to tell it, too.
_HEARING, _FAREWELL = 5.0, 0.3


class EndNotice:
    """Without an agent, the command of the job would be the first process of its container: it would get the SIGTERM,
    and its end would end the container. So the launchers of the job get the signal, and the agent ends when they have,
    unless it does not leave: then the harness says with which code the container ends.
    """

    def __init__(self, *, leaves: bool = True) -> None:
        self._leaves = leaves
        self._launchers: list[Process] = []
        self._told: list[Process] = []
        self._came: float | None = None
        self._ended: float | None = None
        self._heard = threading.Event()

    def launched(self, process: Process) -> None:
        """Count a process as a launcher of the job. One that comes after the notice gets it, too."""
        self._launchers.append(process)
        if self._came is not None:
            self._pass_on()

    def receive(self, *_: object) -> None:
        """The handler of SIGTERM."""
        if self._came is None:
            self._came = time.monotonic()
            threading.Thread(target=self._leave_with_job, daemon=True).start()
        self._pass_on()

    def tell(self) -> dict[str, Any] | None:
        """How many `seconds` ago the notice came, to which pids it was `passed_on`, whether the kernel has `delivered`
        it there, and after how many seconds the last of them had `ended`, None while one runs. None without a notice.
        """
        if self._came is None:
            return None
        if not self._runs():
            self._ended = self._ended or time.monotonic()
            self._heard.set()
        return {
            "seconds": time.monotonic() - self._came,
            "passed_on": [process.pid for process in self._told],
            "delivered": all(processes.delivered(process, signal.SIGTERM) for process in self._told),
            "ended": self._ended - self._came if self._ended is not None else None,
        }

    def _pass_on(self) -> None:
        for process in self._launchers:
            if processes.send(process, signal.SIGTERM) and process not in self._told:
                self._told.append(process)

    def _leave_with_job(self) -> None:
        assert self._came is not None
        while self._runs():
            time.sleep(_LOOK)
        self._ended = self._ended or time.monotonic()
        if not self._leaves:
            return
        self._heard.wait(_HEARING)
        while self._runs():  # launched meanwhile
            time.sleep(_LOOK)
        time.sleep(_FAREWELL)
        os._exit(0)

    def _runs(self) -> bool:
        return any(processes.state(process) != "gone" for process in self._launchers)
