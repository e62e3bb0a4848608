"""The ranks that a run's records tell of: who came up, in which incarnation, and how to ask for its stack."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from chaoskit.protocol.events import Event, read_events

#: Launch, when the process began, restart: what orders the incarnations of one rank. Agents of different nodes count
#: their restarts each on its own, and a rank may move from one to the other. When a process began is counted in clock
#: ticks of its machine or, where there are several machines, in seconds of our own clock.
Incarnation = tuple[int, float, int]


@dataclass(frozen=True)
class Rank:
    """A rank's process, as its `process.start` event describes it: `start` is its start in clock ticks of its machine,
    `t` the time of that event. `stack_signal` has it write down its stacks. `began` orders it (see `Incarnation`)."""

    rank: int
    pid: int
    start: int
    launch: int
    restart: int
    t: float
    stack_signal: int | None = None
    node: str = ""
    began: float = 0.0

    @property
    def incarnation(self) -> Incarnation:
        """What orders the incarnations of one rank."""
        return self.launch, self.began, self.restart


def seen(run_dir: Path, *, launch: int, ordered_by: Literal["start", "t"] = "start") -> dict[int, Rank]:
    """The newest process of each rank of that launch, living or not. Where machines have clocks of their own, order
    processes by `t`, which the reader of records has put right."""
    newest: dict[int, Rank] = {}
    for path in (run_dir / "events").glob("*.jsonl"):
        found = _first(path, ordered_by)
        if found is None or found.launch != launch:
            continue
        older = newest.get(found.rank)
        if older is None or (found.incarnation, found.t) > (older.incarnation, older.t):
            newest[found.rank] = found
    return newest


def _first(path: Path, ordered_by: Literal["start", "t"]) -> Rank | None:
    """What the first line tells, None unless it is the start of a rank."""
    try:
        with path.open("rb") as file:
            said = json.loads(file.readline())
        if said["e"] != "process.start" or said["role"] != "rank":
            return None
        signum = said.get("stack_signal")
        found = Rank(
            rank=int(said["rank"]),
            pid=int(said["pid"]),
            start=int(said["start"]),
            launch=int(said["launch"]),
            restart=int(said["restart"]),
            t=float(said["t"]),
            stack_signal=int(signum) if signum is not None else None,
            node=str(said.get("node", "")),
            began=int(said["start"]),
        )
        if ordered_by == "t":
            t = next((event.t for event in read_events(path) if isinstance(event, Event)), found.t)
            found = replace(found, t=t, began=t)
        return found
    except (OSError, ValueError, KeyError, TypeError):
        return None  # being written, or cut short, or not a rank's
