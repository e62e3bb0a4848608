"""`Launcher` and `Launch`: the interface for starting a job's command and controlling it.

Every implementation guarantees: when a launch is over (by itself, by `stop`, or because the harness died), no
process of it is left, whatever session or process group it moved to.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from chaoskit.environments.launch.order import Order
from chaoskit.environments.machine.processes import Process


@dataclass(frozen=True)
class LaunchEnd:
    """How a launch ended. `code` is the command's exit code, negative for a signal. `survivors` are the processes
    that outlived the command and were killed, each `{"pid", "rank" (or None), "command"}`. `why` is what a scheduler
    says of it, and `requeued` whether that one starts the job again.
    """

    code: int
    survivors: tuple[Mapping[str, Any], ...] = ()
    why: str = ""
    requeued: bool = False


class Launch(Protocol):
    """One start of the command. It has a `fileno`, so that it can be polled along with other things."""

    @property
    def how(self) -> str:
        """`warm`, `cold`, or `cold: ` and the reason why it is not warm."""
        ...

    @property
    def process(self) -> Process:
        """The process that runs the command, by the pid that it has where it runs."""
        ...

    def fileno(self) -> int:
        """Readable when the answer of `ended` may have changed since it was given."""
        ...

    def ended(self) -> LaunchEnd | None:
        """How it ended; None while it is running. Never blocks. Raises ChaoskitError if the launch was lost."""
        ...

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """Kill every process and return them, as in `LaunchEnd.survivors`; `ended` then has an answer.

        Raises ChaoskitError if they cannot be killed.
        """
        ...

    def close(self) -> None:
        """Stop the launch if it is running, and release it; may be called again."""
        ...


class NodeLaunch(Launch, Protocol):
    """A launch of one process, on one node."""

    def ask_to_end(self) -> None:
        """Send SIGTERM to the process that runs the command; no effect if it has ended."""
        ...


@dataclass(frozen=True)
class WaitingKeeper:
    """A keeper that has been started and waits at the other end of a line for `order`. `how` says how it starts the
    command; `reap` is called once it has ended."""

    pid: int
    order: Mapping[str, Any]
    how: str = "cold"
    reap: Callable[[], object] | None = None


class Launcher(Protocol):
    """Starts commands."""

    def start(self, order: Order) -> NodeLaunch:
        """Start the ordered command. Raises UsageError if it cannot be started."""
        ...

    def keep(self, order: Order, line: socket.socket) -> WaitingKeeper:
        """Start only the keeper, with this end of a line, for a harness that is elsewhere. Raises UsageError."""
        ...
