"""What an environment can do, as small protocols: a fault asks for these and never for an environment by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable


@dataclass(frozen=True)
class Process:
    """A process of the job, by its pid and its start time in clock ticks, which a reused pid does not share."""

    pid: int
    started: int


@runtime_checkable
class CanSignal(Protocol):
    """Sends signals to the processes of the job, by rank or to the launcher, and sees what became of them."""

    def rank_process(self, rank: int) -> Process:
        """The process of `rank` in the current incarnation; raises LookupError where it has none."""
        ...

    def launcher_process(self) -> Process:
        """The process that the job's command became; raises LookupError where none is running."""
        ...

    def signal(self, process: Process, signum: int) -> bool:
        """Send the signal; False if the process was already gone."""
        ...

    def state(self, process: Process) -> Literal["running", "stopped", "gone"]:
        """What the process is doing; a zombie is gone."""
        ...

    def delivered(self, process: Process, signum: int) -> bool:
        """Whether the process has taken the signal: it is gone, or it catches the signal and none is pending."""
        ...


@runtime_checkable
class CanOrder(Protocol):
    """Has a rank do something to itself when it is next at its gate."""

    def order(self, rank: int, order: Mapping[str, Any]) -> None:
        """Hand `order` to the rank: `{"do": "exit", "code": 3}`, `{"do": "raise", "type": ..., "message": ...}` or
        `{"do": "nan"}`."""
        ...

    def raised(self, rank: int) -> bool:
        """Whether the rank, in the incarnation that was given an order to raise or to make a NaN, has said that it
        does so."""
        ...


@dataclass(frozen=True)
class StoredCheckpoint:
    """The `files` that one save has left, by their names below the job's `{out}`, and which `save` it was: its
    `launch` and `restart`, and `n`, the steps of that incarnation."""

    files: tuple[str, ...]
    save: Mapping[str, int]


@runtime_checkable
class CanTouchFiles(Protocol):
    """Reaches what the job keeps in its `{out}`, and knows what of it its saves have left there. Names are relative
    to `{out}`."""

    def out(self) -> Path:
        """The job's `{out}`."""
        ...

    def aside(self) -> Path:
        """A new directory on the file system of `{out}` that the job knows nothing of."""
        ...

    def checkpoint_files(self) -> StoredCheckpoint:
        """The newest save that ended on every rank that saves, wherever its files have been renamed to since.

        Raises LookupError where there is none.
        """
        ...

    def checkpoint_directories(self) -> tuple[str, ...]:
        """The entries of `{out}` itself, directories or files, in which saves lie; raises LookupError if none do."""
        ...


#: How to get a capability that an environment lacks.
REMEDIES: dict[str, str] = {
    "CanSignal": "use --env local, which runs the ranks as processes of this machine",
    "CanOrder": "use --env local, and let the probe run in the ranks",
    "CanTouchFiles": "use --env local, where the job's files are those of this machine",
}
