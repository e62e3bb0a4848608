"""The ranks that a run's events tell of: who came up, in which incarnation, and how to ask for its stack."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from chaoskit.capabilities import Process

#: Launch, start in clock ticks, restart.
Incarnation = tuple[int, int, int]


@dataclass(frozen=True)
class Rank:
    """A rank's process, as its `process.start` event describes it. `stack_signal` has it write down its stacks."""

    rank: int
    process: Process
    launch: int
    restart: int
    t: float
    stack_signal: int | None = None
    node: str = ""

    @property
    def incarnation(self) -> Incarnation:
        """What orders the lives of one rank: its launch, and in it when its process began. Agents of different nodes
        count their restarts each on its own, and a rank may move from one to the other."""
        return self.launch, self.process.started, self.restart


def seen(run_dir: Path, *, launch: int) -> dict[int, Rank]:
    """The newest process of each rank of that launch, living or not."""
    newest: dict[int, Rank] = {}
    for path in (run_dir / "events").glob("*.jsonl"):
        found = _first(path)
        if found is None or found.launch != launch:
            continue
        older = newest.get(found.rank)
        if older is None or (found.incarnation, found.t) > (older.incarnation, older.t):
            newest[found.rank] = found
    return newest


def _first(path: Path) -> Rank | None:
    """What the first line tells, None unless it is the start of a rank."""
    try:
        with path.open("rb") as file:
            said = json.loads(file.readline())
        if said["e"] != "process.start" or said["role"] != "rank":
            return None
        process = Process(int(said["pid"]), int(said["start"]))
        signum = said.get("stack_signal")
        return Rank(
            rank=int(said["rank"]),
            process=process,
            launch=int(said["launch"]),
            restart=int(said["restart"]),
            t=float(said["t"]),
            stack_signal=int(signum) if signum is not None else None,
            node=str(said.get("node", "")),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # being written, or cut short, or not a rank's
