"""`ColdLauncher`: starts the command in a fresh process, as a shell would, under a keeper (see `keeper`)."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from chaoskit.environments.launch.kept import KeptLaunch, launch_with
from chaoskit.environments.launch.launcher import WaitingKeeper
from chaoskit.environments.launch.order import Order
from chaoskit.errors import UsageError

_KEEPER = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True)
class ColdLauncher:
    """Starts each command in fresh processes. `grace`: how many seconds processes may outlive the command before
    they count as survivors. A worker of torch's data loader checks every five seconds whether its rank is alive,
    once it has started: on a busy machine, where it is spawned, that took more than eight seconds.
    """

    grace: float = 20.0

    def start(self, order: Order) -> KeptLaunch:
        """See `Launcher.start`."""
        return launch_with(lambda line: self.keep(order, line))

    def keep(self, order: Order, line: socket.socket) -> WaitingKeeper:
        """See `Launcher.keep`."""
        try:
            with order.log.open("ab") as errors:
                keeper = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_KEEPER), order.run_id],
                    stdin=line.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            raise UsageError(f"cannot start a process: {error}") from error
        return WaitingKeeper(keeper.pid, order.to_json(grace=self.grace), reap=keeper.wait)
