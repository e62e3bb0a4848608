"""`NodePreemptions`: notice to nodes of a `JobOnNodes`: each can be taken away, and a fresh one takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.environments.machine.job_on_nodes import JobOnNodes
from chaoskit.environments.machine.preemptions import Preemptions
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.metadata.metadata_server import ADDRESS


class NodePreemptions(Preemptions):
    """Fulfils `CanPreempt` and `CanOwnAddress` for an environment with this `job`, whose nodes can be lost."""

    job: JobOnNodes

    def ranks_of(self, node: str) -> tuple[int, ...]:
        """See `CanLoseNodes`."""
        raise NotImplementedError

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        """See `CanLoseNodes`."""
        raise NotImplementedError

    def end_idle_node(self, node: str) -> None:
        """Kill everything on a node that is up and on which no command runs."""
        raise NotImplementedError

    def own_address(self) -> str:
        """See `CanOwnAddress`."""
        return ADDRESS

    def preemptible(self) -> tuple[str, ...]:
        """See `CanPreempt`."""
        return tuple(self.job.roster.up)

    def node_of(self, rank: int) -> str:
        """See `CanPreempt`."""
        up = self.job.roster.up
        return next((node for node in up if rank in self.ranks_of(node)), up[0])

    def command_on(self, node: str) -> Process | None:
        """See `Preemptions`."""
        launch = self.job.running
        return launch.agents.get(node) if launch is not None else None

    def take_node(self, node: str) -> None:
        """See `Preemptions`."""
        if self.command_on(node) is not None:
            self.lose_node(node, replaced=True)
        elif node in self.job.roster.up:
            self.end_idle_node(node)
            self.job.lose(node, replaced=True)
