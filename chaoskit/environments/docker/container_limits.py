"""`ContainerLimits`: limits on the memory and the processors of containers, set by the daemon.

The counters are read inside the container, where the kernel shows the group of that container. The daemon limits whole
containers: a rank can be limited where it is the only one of its container.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chaoskit.capabilities import LimitTarget
from chaoskit.environments.agents.agent_line import AgentGone
from chaoskit.environments.cgroups.processor import PERIOD, quota_of
from chaoskit.environments.docker.container_faults import ContainerFaults
from chaoskit.environments.docker.container_nodes import ContainerNode
from chaoskit.environments.docker.daemon import DaemonError

#: A limit in bytes that no machine reaches: the daemon cannot take a limit away.
_NO_LIMIT = 1 << 50
#: In v1 the kernel refuses a limit below what is in use. These are the bytes by which a refused limit is raised.
_RAISES = (0, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
#: A limit is lowered only by as much: each time is a request to the daemon.
_LEAST_STEP = 1 << 20


@dataclass
class ContainerLimit:
    """A limit of one container. `before` is what had been counted when it began, `there` who ran there, `last` what
    was counted last: a container that is gone tells no more."""

    node: ContainerNode
    before: Mapping[str, Any]
    last: Mapping[str, Any]
    leave: int = 0
    there: tuple[int, ...] = ()
    bytes: int | None = None
    lifted: bool = False
    settings: dict[str, int] = field(default_factory=dict)


class ContainerLimits(ContainerFaults):
    """Fulfils `CanLimitMemory` and `CanLimitProcessor`."""

    def __init__(self) -> None:
        self._limits: dict[int, ContainerLimit] = {}

    def limit_memory(self, target: LimitTarget, *, leave: int) -> int:
        """See `CanLimitMemory`."""
        limit = self._begin(target)
        limit.leave, limit.there = leave, tuple(self.pids_on(limit.node.name))
        chosen = limit.there if target.rank is None else (self.rank_process(target.rank).pid,)
        limit.node.agent.ask("kill_first", pids=list(chosen))
        limit.settings = {"mem_limit": _NO_LIMIT, "memswap_limit": _NO_LIMIT}
        number = self._keep(limit)
        self.lower_memory(number)
        return number

    def lower_memory(self, limit: int) -> None:
        """See `CanLimitMemory`."""
        found = self._limits[limit]
        wanted = int(self._now(found)["used"]) + found.leave
        if found.lifted or (found.bytes is not None and wanted > found.bytes - _LEAST_STEP):
            return
        for more in _RAISES:
            # Without swap space of its own, or the kernel would move memory there and kill nobody.
            with suppress(DaemonError):
                self._update(found, mem_limit=wanted + more, memswap_limit=wanted + more)
                found.bytes = wanted + more
                return

    def memory_limited(self, limit: int) -> Mapping[str, Any]:
        """See `CanLimitMemory`."""
        found = self._limits[limit]
        # In this order: the kernel counts a kill before the process is gone.
        here = self.pids_on(found.node.name) if not found.node.agent.is_gone else []
        gone = [pid for pid in found.there if pid not in here]
        now = self._now(found)
        return {
            "kills": now["kills"] - found.before["kills"],
            "gone": gone,
            "used": now["used"],
            "limit": found.bytes,
        }

    def lift_memory(self, limit: int) -> None:
        """See `CanLimitMemory`."""
        self._lift(limit)

    def limit_processor(self, target: LimitTarget, *, cpu: float) -> int:
        """See `CanLimitProcessor`."""
        limit = self._begin(target)
        try:
            self._update(limit, cpu_period=PERIOD, cpu_quota=quota_of(cpu))
        except DaemonError as error:
            raise LookupError(str(error)) from error
        limit.settings = {"cpu_period": PERIOD, "cpu_quota": -1}
        return self._keep(limit)

    def processor_limited(self, limit: int) -> Mapping[str, Any]:
        """See `CanLimitProcessor`."""
        found = self._limits[limit]
        now = self._now(found)
        counted = {name: round(now[name] - found.before[name], 3) for name in ("periods", "throttled", "seconds")}
        return {**counted, "felt": counted["throttled"] > 0}

    def lift_processor(self, limit: int) -> None:
        """See `CanLimitProcessor`."""
        self._lift(limit)

    def limited_container(self, target: LimitTarget) -> ContainerNode:
        """The container of the target. Raises LookupError if it is not up, or runs further ranks."""
        name = self.node_of_target(target, whole="the daemon limits whole containers")
        node = self.containers.now[name]
        if node.is_frozen:
            raise LookupError(f"{node.name} is paused")
        return node

    def _begin(self, target: LimitTarget) -> ContainerLimit:
        node = self.limited_container(target)
        try:
            now = node.agent.ask("resources")
        except AgentGone as error:
            raise LookupError(f"nothing of the job runs on {node.name}") from error
        return ContainerLimit(node, now, now)

    def _now(self, limit: ContainerLimit) -> Mapping[str, Any]:
        if not limit.node.is_frozen and not limit.node.agent.is_gone:
            with suppress(AgentGone):
                limit.last = limit.node.agent.ask("resources")
        return limit.last

    def _update(self, limit: ContainerLimit, **settings: int) -> None:
        self.containers.update(limit.node, **settings)

    def _keep(self, limit: ContainerLimit) -> int:
        self._limits[number := len(self._limits) + 1] = limit
        return number

    def _lift(self, number: int) -> None:
        found = self._limits.get(number)
        if found is not None and not found.lifted:
            found.lifted = True
            with suppress(DaemonError):  # the container is gone
                self._update(found, **found.settings)
