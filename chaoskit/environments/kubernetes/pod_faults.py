"""`PodFaults`: pods are lost, frozen, added and removed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from chaoskit.environments.agents.agent_job import AgentJob
from chaoskit.environments.kubernetes.pods import PodNodes

_TICKS = os.sysconf("SC_CLK_TCK")


class PodFaults(AgentJob):
    """Fulfils `CanLoseNodes`. A node is lost when its pod was deleted without grace: the pod's uid is gone from the
    cluster, and its agent, the first process of its container, has ended."""

    #: The nodes whose pod is gone, as the cluster says.
    _lost: set[str]

    @property
    def pods(self) -> PodNodes:
        """The nodes of the run."""
        raise NotImplementedError

    @property
    def agents(self) -> PodNodes:
        """See `NodeProcesses`."""
        return self.pods

    def began(self, hello: Mapping[str, Any]) -> float:
        """See `NodeProcesses`: two pods may be on two machines, which were started at different times."""
        return self.pods.now[str(hello["node"])].booted + float(hello["start"]) / _TICKS

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        """See `CanLoseNodes`: the pod is deleted without grace."""
        launch = self.job.must_run(node)
        ended = self.pids_on(node)
        evidence = self.pods.kill(node)
        launch.end(node, cause="replaced" if replaced else "lost")
        if not self.pods.exists(node):
            self._lost.add(node)
        self.job.lose(node, replaced=replaced)
        return {"ended": ended, **evidence}

    def is_lost(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        # Of a node that is back, this was asked while it was away.
        return node in self._lost and (node in self.job.roster.up or not self.pods.exists(node))

    def freeze_node(self, node: str) -> Mapping[str, Any]:
        """See `CanLoseNodes`."""
        self.job.must_run(node)
        return {"pids": self.pods.now[node].agent.ask("freeze", run_id=self.job.run.spec.run_id)}

    def is_frozen(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        return bool(self.pods.now[node].agent.ask("is_frozen", run_id=self.job.run.spec.run_id))

    def thaw_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        found = self.pods.now.get(node)
        if found is not None and not found.agent.is_gone:
            found.agent.ask("thaw", run_id=self.job.run.spec.run_id)
