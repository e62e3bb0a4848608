"""`WallClocks`: by how much the wall clocks of the ranks are off, as the ranks themselves have recorded it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Of the events that tell of clocks: how far the wall clock is ahead of the times of the file, and what must be added
#: to these to get ours.
_WALL, _CLOCK = b'"e":"wall"', b'"e":"clock"'


@dataclass
class _RankFile:
    """What one process of a rank has said: how far its wall clock was `ahead` of the times of its file, each time that
    this had changed. `offset` is what makes these times ours."""

    rank: int
    node: str
    incarnation: tuple[int, int, float]
    ahead: list[float]
    offset: float = 0.0
    read: int = 0


@dataclass
class _Skew:
    """Wall clocks on these nodes should have moved. `last`: of each process that was there, the number of what it had
    said last. `past`: the files of processes that an incarnation of the same rank had followed by then."""

    nodes: frozenset[str]
    last: Mapping[str, int]
    past: frozenset[str]


class WallClocks:
    """Reads the records in `run_dir` as they grow. A rank without a node is on `only_node`."""

    def __init__(self, run_dir: Path, *, only_node: str = "node0") -> None:
        self._run_dir, self._only_node = run_dir, only_node
        self._files: dict[str, _RankFile] = {}
        self._skews: list[_Skew] = []

    def begin(self, nodes: Collection[str]) -> int:
        """Watch the clocks of the ranks from now on; those on `nodes` should move. Returns a number for `moved`."""
        self._look()
        newest = {
            one.rank: name for name, one in sorted(self._files.items(), key=lambda each: each[1].incarnation)
        }
        last = {name: len(self._files[name].ahead) - 1 for name in newest.values()}
        self._skews.append(_Skew(frozenset(nodes), last, frozenset(self._files) - frozenset(last)))
        return len(self._skews)

    def moved(self, number: int) -> dict[str, dict[int, float]]:
        """By how many seconds the clock of each rank was off since then, at most: `ranks` on the nodes that are meant,
        and `others`. A process that came up there later is compared with our own clock, another one with its start."""
        self._look()
        skew = self._skews[number - 1]
        ours = time.time() - time.monotonic()
        found: dict[str, dict[int, float]] = {"ranks": {}, "others": {}}
        for name, one in self._files.items():
            if name in skew.past:
                continue
            meant = one.node in skew.nodes
            mine = found["ranks" if meant else "others"]
            since = one.ahead[skew.last.get(name, 0) :]
            before = ours + one.offset if meant and name not in skew.last else since[0]
            mine[one.rank] = max(mine.get(one.rank, 0.0), *(round(each - before, 3) for each in since), key=abs)
        return found

    def _look(self) -> None:
        for path in sorted((self._run_dir / "events").glob("rank-*.jsonl")):
            known = self._files.get(path.name)
            try:
                with path.open("rb") as file:
                    file.seek(known.read if known is not None else 0)
                    new = file.read()
            except OSError:
                continue
            whole = new[: new.rfind(b"\n") + 1]
            if known is None and (known := self._begun(whole)) is not None:
                self._files[path.name] = known
            if known is not None:
                known.read += len(whole)
                for said in _told(whole):
                    if said.get("e") == "wall":
                        known.ahead.append(float(said["ahead"]))
                    elif said.get("e") == "clock":
                        known.offset = float(said["offset"])

    def _begun(self, lines: bytes) -> _RankFile | None:
        try:
            said = json.loads(lines.partition(b"\n")[0])
            node = str(said.get("node") or self._only_node)
            incarnation = int(said["launch"]), int(said["restart"]), float(said["t"])
            return _RankFile(int(said["rank"]), node, incarnation, [float(said["ahead"])])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None  # not a rank's, or not there yet


def _told(lines: bytes) -> Iterator[Mapping[str, Any]]:
    for line in lines.splitlines():
        if _WALL in line or _CLOCK in line:
            try:
                said = json.loads(line)
                float(said["ahead"] if said["e"] == "wall" else said["offset"])
            except (ValueError, KeyError, TypeError):
                continue
            yield said
