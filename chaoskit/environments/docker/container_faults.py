"""`ContainerFaults`: containers are lost, paused, added and removed, their network is cut or slow, names are hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from chaoskit.capabilities import Way
from chaoskit.environments.agents.agent_job import AgentJob
from chaoskit.environments.docker.container_nodes import ContainerNodes
from chaoskit.environments.docker.network_faults import ContainerNetwork


class ContainerFaults(AgentJob):
    """Fulfils `CanLoseNodes`, `CanPartition`, `CanDegrade` and `CanHideNames`."""

    #: The nodes whose container was killed, and is gone as the daemon says.
    _lost: set[str]

    @property
    def containers(self) -> ContainerNodes:
        """The nodes of the run."""
        raise NotImplementedError

    @property
    def agents(self) -> ContainerNodes:
        """See `NodeProcesses`."""
        return self.containers

    @property
    def network(self) -> ContainerNetwork:
        """The cuts and the slow links of the run."""
        raise NotImplementedError

    def cut(self, ways: Sequence[Way], *, how: Literal["drop", "reset"] = "drop", percent: float = 100.0) -> int:
        """See `CanPartition`."""
        return self.network.cut(ways, how=how, percent=percent)

    def reset(self, ways: Sequence[Way]) -> int:
        """See `CanReset`."""
        return self.cut(ways, how="reset")

    def mend(self, cut: int) -> None:
        """See `CanPartition`."""
        self.network.mend(cut)

    def lost(self, cut: int) -> Mapping[str, int]:
        """See `CanPartition`."""
        return self.network.lost(cut)

    def reaches(self, source: str, target: str) -> bool:
        """See `CanPartition`."""
        return self.network.reaches(source, target)

    def degrade(
        self,
        nodes: Sequence[str],
        *,
        delay: float = 0.0,
        jitter: float = 0.0,
        rate: float | None = None,
        corrupt: float = 0.0,
    ) -> int:
        """See `CanDegrade`."""
        return self.network.degrade(nodes, delay=delay, jitter=jitter, rate=rate, corrupt=corrupt)

    def restore(self, degraded: int) -> None:
        """See `CanDegrade`."""
        self.network.restore(degraded)

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """See `CanDegrade`."""
        return self.network.degraded(degraded)

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        """See `CanLoseNodes`: the container loses its network and is killed."""
        launch = self.job.must_run(node)
        ended = self.pids_on(node)
        self.network.goes(node)
        evidence = self.containers.kill(node)
        launch.end(node, cause="replaced" if replaced else "lost")
        if not self.containers.is_up(node):
            self._lost.add(node)
        self.job.lose(node, replaced=replaced)
        return {"ended": ended, **evidence}

    def is_lost(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        # Of a node that is back, this was asked while it was away.
        return node in self._lost and (node in self.job.roster.up or not self.containers.is_up(node))

    def freeze_node(self, node: str) -> Mapping[str, Any]:
        """See `CanLoseNodes`: the container is paused, by the freezer of its cgroup."""
        self.job.must_run(node)
        pids = self.pids_on(node)
        return {"pids": pids, **self.containers.freeze(node)}

    def is_frozen(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        return self.containers.is_paused(node)

    def thaw_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        self.containers.thaw(node)

    def hide_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        self.containers.hide(nodes, hidden=True)

    def show_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        self.containers.hide(nodes, hidden=False)

    def resolves(self, node: str, name: str) -> bool:
        """See `CanHideNames`; takes a second if the name is unknown and no name server answers."""
        found = self.containers.now.get(node)
        return found is not None and not found.is_frozen and bool(found.agent.ask("resolves", name=name))
