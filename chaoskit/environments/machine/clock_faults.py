"""`ClockFaults`: the wall clocks of whole nodes of this machine jump, in the processes of the job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaoskit.environments.machine import process_clocks, processes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.records.wall_clocks import WallClocks
from chaoskit.errors import ChaoskitError


@dataclass
class _NodesClock:
    """`done` are the processes that have it, each with the program that it ran."""

    nodes: tuple[str, ...]
    by: float
    done: set[tuple[Process, str]] = field(default_factory=set)


class ClockFaults:
    """Fulfils `CanSkewClock` for an environment whose `run` has its processes on this machine."""

    run: MachineRun

    def __init__(self) -> None:
        self._skews: dict[int, _NodesClock] = {}
        self._wall_clocks = WallClocks(self.run.run_dir)

    @abstractmethod
    def nodes_meant(self, node: int | None) -> tuple[str, ...]:
        """The names of the node with that number (negative: from the last), or of all. Raises LookupError."""

    @abstractmethod
    def processes_on(self, node: str) -> Sequence[Process]:
        """The processes of the job on a node."""

    def skew_clock(self, node: int | None, *, by: float) -> int:
        """See `CanSkewClock`."""
        nodes = self.nodes_meant(node)
        for skew in self._skews.values():
            if both := set(nodes) & set(skew.nodes):
                raise LookupError(f"the clock of {min(both)} is off already: set that right first")
        if not any(self.processes_on(each) for each in nodes):
            raise LookupError(f"nothing of the job runs on {', '.join(nodes)}")
        number = self._wall_clocks.begin(nodes)
        self._skews[number] = _NodesClock(nodes, by)
        try:
            failed = self._reach(self._skews[number])
        except ChaoskitError as error:
            failed = {0: str(error)}
        if failed:
            self.set_clock_right(number)
            raise LookupError(f"the clock of a process cannot be set: {'; '.join(sorted(set(failed.values())))}")
        return number

    def keep_clock(self, skew: int) -> None:
        """See `CanSkewClock`."""
        if skew in self._skews:
            self._reach(self._skews[skew])

    def clock_skewed(self, skew: int) -> Mapping[str, Any]:
        """See `CanSkewClock`."""
        return self._wall_clocks.moved(skew)

    def set_clock_right(self, skew: int) -> None:
        """See `CanSkewClock`."""
        if (known := self._skews.pop(skew, None)) is not None:
            process_clocks.set_wall_clocks([one for node in known.nodes for one in self.processes_on(node)], 0.0)

    def _reach(self, skew: _NodesClock) -> dict[int, str]:
        """Set the clocks of those that do not have it yet; why it failed, by pid."""
        failed: dict[int, str] = {}
        for _ in range(3):  # one that is just being started is found the next time
            here = [one for node in skew.nodes for one in self.processes_on(node)]
            new = {(one, processes.program(one)) for one in here} - skew.done
            if not new:
                break
            failed = process_clocks.set_wall_clocks([one for one, _ in new], skew.by)
            skew.done |= {(one, program) for one, program in new if one.pid not in failed}
        return failed
