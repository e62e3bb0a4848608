"""`Environment`: where a job runs. It launches, reports what happens, opens the ranks' gates, and cleans up.

It never knows a fault by name: what it can do to a job is told by the capability protocols that it fulfils
(`chaoskit.capabilities`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from chaoskit.launch.mode import COLD, Mode
from chaoskit.nodes import Nodes


@dataclass(frozen=True)
class Arrived:
    """A rank has stopped at its gate and waits for `release`.

    `n` is its count of steps taken in its incarnation (for `step`: about to take step n + 1). `record` holds the
    fields of the `step` event that it is about to write, for `step` only.
    """

    rank: int
    launch: int
    restart: int
    pid: int
    at: Literal["start", "step", "save", "saved"]
    n: int
    call: int = 1
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Ended:
    """The job's command has ended. `code` is negative for a signal. `survivors` are processes that it left behind,
    each `{"pid", "rank", "command"}`; they are ended before this is reported."""

    launch: int
    code: int
    survivors: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Told:
    """Something else for the record, of this `kind`: a node that came up, or went (see docs/format.md)."""

    kind: str
    data: Mapping[str, Any]


Happening = Arrived | Ended | Told


Storing = Literal["", "watched", "recorded"]


@dataclass(frozen=True)
class Place:
    """What one run tells its environment: its directory, the job's `out`, whether ranks stop at gates, how it is to be
    launched (and relaunched, where that is another command: `relaunch_mode`), whether the ranks shall say what they
    imported (`learning`), on how many `nodes` the job runs, and whether its `out` is a file system of ours: `watched`
    has a journal, and can be made to fail; in that of `recorded` are the bytes, too; "" is none."""

    run_dir: Path
    out: Path
    cwd: Path
    run_id: str
    gated: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = COLD
    relaunch_mode: Mode | None = None
    learning: bool = False
    nodes: Nodes = field(default_factory=Nodes)
    storage: Storing = ""


class Environment(Protocol):
    """One run's surroundings; a context manager that leaves nothing behind when it is left."""

    name: str

    def __enter__(self) -> Environment: ...
    def __exit__(self, *exc: object) -> None: ...

    def launch(self, index: int, command: Sequence[str]) -> str:
        """Start the command as launch number `index`, and say how: `warm` or `cold`, or `cold: ` and why not warm.

        Raises UsageError if it cannot be started, TooFewNodes where not enough of the job's nodes are left.
        """
        ...

    def wait(self, timeout: float) -> list[Happening]:
        """What happened, as soon as something has, or nothing after `timeout` seconds.

        The end of a launch is told once, after everything else, also where `stop` brought it about.
        """
        ...

    def release(self, rank: int, *, keep_gating: bool, until: int = 0, names: int = 0) -> None:
        """Let the rank that arrived go on (or do what it was ordered); without `keep_gating` it stops no more.

        It need not stop at steps before the one whose `n` is `until`, but for the first one after a load. In the next
        `names` steps it is to record its tensors one by one.
        """
        ...

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """End every process of the current launch at once; returns what had to be ended."""
        ...

    def stacks(self) -> dict[int, str]:
        """The Python stack of each living rank, for people; a rank that cannot tell is left out."""
        ...
