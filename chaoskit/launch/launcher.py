"""`Launcher` and `Launch`: the small interface behind which a job's command is started and kept.

Whatever fulfils it owes one promise: when a launch is over, by itself, by `stop` or because the harness died in
any way, no process of it is left, whatever session or process group it had moved to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from chaoskit.capabilities import Process
from chaoskit.launch.order import Order


@dataclass(frozen=True)
class LaunchEnd:
    """How a launch ended. `code` is that of the command, negative for a signal. `survivors` are the processes that
    outlived the command and had to be ended, each `{"pid", "rank" (or None), "command"}`."""

    code: int
    survivors: tuple[Mapping[str, Any], ...] = ()


class Launch(Protocol):
    """One start of the command. Has a `fileno`, so that it can be waited for along with other things."""

    @property
    def how(self) -> str:
        """`warm`, `cold`, or `cold: ` and why it could not be warm."""
        ...

    @property
    def process(self) -> Process:
        """The process that the command became."""
        ...

    def fileno(self) -> int:
        """Readable when `ended` may have changed its answer."""
        ...

    def ended(self) -> LaunchEnd | None:
        """How it ended, None while it has not; never blocks. Raises ChaoskitError if it is no longer kept."""
        ...

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """End every process at once and return them, as `LaunchEnd.survivors` does; `ended` then has an answer.

        Raises ChaoskitError if they cannot be ended.
        """
        ...

    def close(self) -> None:
        """Stop what still runs and let go of it; may be called again."""
        ...


class Launcher(Protocol):
    """Starts commands."""

    def start(self, order: Order) -> Launch:
        """Start what is ordered; raises UsageError if it cannot be started."""
        ...
