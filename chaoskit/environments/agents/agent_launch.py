"""`AgentLaunch`: the launch of the job's command on one node with an agent, which ends if the node does."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from chaoskit.environments.launch.kept import KeptLaunch
from chaoskit.environments.launch.launcher import LaunchEnd, WaitingKeeper
from chaoskit.environments.machine.processes import Process
from chaoskit.errors import ChaoskitError

#: Seconds in which a node whose processes die is down.
_DYING = 5.0


class AgentLaunch:
    """A keeper on a node, at the other end of `line`; see `NodeLaunch`. `terminate` sends SIGTERM to a process
    there. `is_up` says whether the node still runs: what it takes along counts as killed. `wake` is called before
    the keeper is asked for anything, since a paused one does not answer."""

    def __init__(
        self,
        keeper: WaitingKeeper,
        line: socket.socket,
        *,
        terminate: Callable[[Process], object],
        is_up: Callable[[], bool],
        wake: Callable[[], object],
    ) -> None:
        self._kept = KeptLaunch(keeper, line)
        self._terminate, self._is_up, self._wake = terminate, is_up, wake
        self._lost: LaunchEnd | None = None

    @property
    def how(self) -> str:
        """See `Launch.how`."""
        return self._kept.how

    @property
    def process(self) -> Process:
        """See `Launch.process`."""
        return self._kept.process

    def fileno(self) -> int:
        """See `Launch.fileno`."""
        return self._kept.fileno()

    def ended(self) -> LaunchEnd | None:
        """See `Launch.ended`."""
        if self._lost is None:
            try:
                return self._kept.ended()
            except ChaoskitError:
                self._must_be_down()
        return self._lost

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """See `Launch.stop`."""
        if self._lost is None and self._is_up():
            self._wake()
            try:
                return self._kept.stop()
            except ChaoskitError:
                self._must_be_down()
        self._lost = self._lost or LaunchEnd(-signal.SIGKILL)
        return ()

    def ask_to_end(self) -> None:
        """See `NodeLaunch.ask_to_end`."""
        self._terminate(self._kept.process)

    def close(self) -> None:
        """See `Launch.close`."""
        if self.ended() is None:
            self.stop()
        self._kept.drop() if self._lost is not None else self._kept.close()

    def _must_be_down(self) -> None:
        """The keeper is gone: with its node, or somebody has killed it alone."""
        deadline = time.monotonic() + _DYING
        while self._is_up():  # a node dies one process after the other
            if time.monotonic() > deadline:
                raise ChaoskitError("the keeper of the job was killed on its node")
            time.sleep(0.01)
        self._lost = LaunchEnd(-signal.SIGKILL)
