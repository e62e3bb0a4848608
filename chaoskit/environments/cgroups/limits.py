"""`ResourceLimits`: limits on the memory, the processors and the disk of ranks and nodes, by control groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from chaoskit.capabilities import LimitTarget, ProcessRef
from chaoskit.environments.cgroups.disk import DiskLimit, device_of, disk_caused
from chaoskit.environments.cgroups.group import ControlGroup
from chaoskit.environments.cgroups.memory import MemoryLimit
from chaoskit.environments.cgroups.processor import ProcessorLimit
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.processes import Process

#: The kernel kills this process before any other of its group.
_KILL_FIRST = "1000"


class Lifted(Protocol):
    """A limit that can be taken away."""

    def lift(self) -> None: ...


Limit = TypeVar("Limit", bound=Lifted)


@dataclass(frozen=True)
class MemorySqueeze:
    """A limit on memory, and the processes that were there when it began."""

    limit: MemoryLimit
    processes: tuple[Process, ...]

    def lift(self) -> None:
        """Take the limit away."""
        self.limit.lift()


class ResourceLimits:
    """Fulfils `CanLimitMemory`, `CanLimitProcessor` and `CanLimitDisk` for an environment whose `run` has control
    groups. The environment names the nodes, and finds the node of a rank."""

    run: MachineRun

    def __init__(self) -> None:
        self._limits: dict[int, Lifted] = {}

    @abstractmethod
    def limited_node(self, number: int) -> str:
        """The name of the node with that number (negative: from the last). Raises LookupError if it is not up."""

    @abstractmethod
    def node_of(self, rank: int) -> str:
        """The name of the node that a rank runs on."""

    @abstractmethod
    def rank_process(self, rank: int) -> ProcessRef:
        """See `CanSignal`."""

    def limit_memory(self, target: LimitTarget, *, leave: int) -> int:
        """See `CanLimitMemory`."""
        group = self._group(target)
        if target.rank is not None:
            pid = self.rank_process(target.rank).pid
            with suppress(OSError):  # it has ended, which shows soon
                Path(f"/proc/{pid}/oom_score_adj").write_text(_KILL_FIRST)
        there = [found for pid in group.processes() if (found := processes.identify(pid)) is not None]
        limit = self._begin(lambda: MemoryLimit(group, leave=leave))
        number = self._keep(MemorySqueeze(limit, tuple(there)))
        self.lower_memory(number)
        return number

    def lower_memory(self, limit: int) -> None:
        """See `CanLimitMemory`."""
        with suppress(OSError):  # the kernel does not take it now, and is asked again
            self._of(limit, MemorySqueeze).limit.lower()

    def memory_limited(self, limit: int) -> Mapping[str, Any]:
        """See `CanLimitMemory`."""
        squeeze = self._of(limit, MemorySqueeze)
        # In this order: the kernel counts a kill before the process is gone.
        gone = [process.pid for process in squeeze.processes if processes.state(process) == "gone"]
        found = squeeze.limit
        return {"kills": found.kills, "gone": gone, "used": found.used(), "limit": found.limit}

    def lift_memory(self, limit: int) -> None:
        """See `CanLimitMemory`."""
        self._lift(limit)

    def limit_processor(self, target: LimitTarget, *, cpu: float) -> int:
        """See `CanLimitProcessor`."""
        group = self._group(target)
        return self._keep(self._begin(lambda: ProcessorLimit(group, cpu=cpu)))

    def processor_limited(self, limit: int) -> Mapping[str, Any]:
        """See `CanLimitProcessor`."""
        periods, throttled, seconds = self._of(limit, ProcessorLimit).caused()
        felt = throttled > 0
        return {"periods": periods, "throttled": throttled, "seconds": round(seconds, 3), "felt": felt}

    def lift_processor(self, limit: int) -> None:
        """See `CanLimitProcessor`."""
        self._lift(limit)

    def limit_disk(self, target: LimitTarget, *, rate: int) -> int:
        """See `CanLimitDisk`."""
        device = device_of(self.run.spec.out)
        group = self._group(target)
        return self._keep(self._begin(lambda: DiskLimit(group, device=device, rate=rate)))

    def disk_limited(self, limit: int) -> Mapping[str, Any]:
        """See `CanLimitDisk`."""
        return disk_caused(self._of(limit, DiskLimit))

    def lift_disk(self, limit: int) -> None:
        """See `CanLimitDisk`."""
        self._lift(limit)

    def _group(self, target: LimitTarget) -> ControlGroup:
        groups = self.run.groups
        if groups is None:
            raise LookupError("the job was not started in control groups of its own")
        try:
            if target.rank is not None:
                pid = self.rank_process(target.rank).pid
                return groups.rank(self.node_of(target.rank), target.rank, pid)
            node = self.limited_node(target.node or 0)
            if not groups.node(node).processes():
                raise LookupError(f"nothing of the job runs on {node}")
            return groups.node(node)
        except OSError as error:
            raise LookupError(f"the control group cannot be used: {error}") from error

    def _begin(self, make: Callable[[], Limit]) -> Limit:
        try:
            return make()
        except OSError as error:
            raise LookupError(f"the kernel did not take the limit: {error}") from error

    def _keep(self, limit: Lifted) -> int:
        self._limits[number := len(self._limits) + 1] = limit
        return number

    def _of(self, number: int, kind: type[Limit]) -> Limit:
        limit = self._limits[number]
        assert isinstance(limit, kind)
        return limit

    def _lift(self, number: int) -> None:
        # It stays known: its effect is asked for once more when it is over.
        if number in self._limits:
            self._limits[number].lift()
