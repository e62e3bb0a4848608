"""`Launcher` and `Launch`: the interface for starting a job's command and controlling it.

Every implementation guarantees: when a launch is over (by itself, by `stop`, or because the harness died), no
process of it is left, whatever session or process group it moved to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from chaoskit.environments.launch.order import Order
from chaoskit.environments.machine.processes import Process


@dataclass(frozen=True)
class LaunchEnd:
    """How a launch ended. `code` is the command's exit code, negative for a signal. `survivors` are the processes
    that outlived the command and were killed, each `{"pid", "rank" (or None), "command"}`.
    """

    code: int
    survivors: tuple[Mapping[str, Any], ...] = ()


class Launch(Protocol):
    """One start of the command. It has a `fileno`, so that it can be polled along with other things."""

    @property
    def how(self) -> str:
        """`warm`, `cold`, or `cold: ` and the reason why it is not warm."""
        ...

    @property
    def process(self) -> Process:
        """The process that runs the command."""
        ...

    def fileno(self) -> int:
        """Readable when the answer of `ended` may have changed."""
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


class Launcher(Protocol):
    """Starts commands."""

    def start(self, order: Order) -> Launch:
        """Start the ordered command. Raises UsageError if it cannot be started."""
        ...
