"""`NodeFaults`: whole virtual hosts are lost, frozen, added and removed."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from chaoskit.environments.machine import processes
from chaoskit.environments.machine.job_on_nodes import JobOnNodes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.netns.network_faults import NetworkFaults
from chaoskit.environments.records import ranks


class NodeFaults(NetworkFaults):
    """Fulfils `CanLoseNodes` for an environment whose `run` has a launch on several hosts."""

    run: MachineRun

    def __init__(self, job: JobOnNodes) -> None:
        self.job = job
        #: For each lost node, whether no other node reached it then.
        self._unreachable: dict[str, bool] = {}

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        return tuple(self.job.roster.up)

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        """See `CanLoseNodes`."""
        launch = self.job.must_run(node)
        self.hosts.client.ask("unplug", name=node)
        ended = launch.end(node, cause="replaced" if replaced else "lost")
        others = [other for other in self.job.roster.up if other != node]
        self._unreachable[node] = not any(self.reaches(node, other) for other in others[:1])
        self.job.lose(node, replaced=replaced)
        return {"ended": [each["pid"] for each in ended]}

    def is_lost(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        # Of a node that is back, this was asked while it was away.
        return self._unreachable.get(node, False) and (node in self.job.roster.up or not self.processes_on(node))

    def freeze_node(self, node: str) -> Mapping[str, Any]:
        """See `CanLoseNodes`."""
        self.job.must_run(node)
        stopped: list[Process] = []
        # A process that is just being started is found the next time.
        while new := [process for process in self.processes_on(node) if process not in stopped]:
            stopped += [process for process in new if processes.send(process, signal.SIGSTOP)]
        return {"pids": [p.pid for p in stopped]}

    def is_frozen(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        own = self.processes_on(node)
        return bool(own) and all(processes.state(process) != "running" for process in own)

    def thaw_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        for process in self.processes_on(node):
            processes.send(process, signal.SIGCONT)

    def add_node(self) -> str:
        """See `CanLoseNodes`."""
        return self.job.add_node()

    def remove_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        self.job.remove_node(node)

    def ranks_of(self, node: str) -> tuple[int, ...]:
        """See `CanLoseNodes`."""
        return tuple(sorted(self.ranks_on(node)))

    def ranks_on(self, node: str) -> dict[int, Process]:
        """The living ranks of that node."""
        known = ranks.seen(self.run.run_dir, launch=self.run.index).values()
        found = {each.rank: Process(each.pid, each.start) for each in known if each.node == node}
        return {rank: process for rank, process in found.items() if processes.state(process) != "gone"}

    def end_idle_node(self, node: str) -> None:
        """See `NodePreemptions`."""
        self.hosts.client.ask("unplug", name=node)
        for process in self.processes_on(node):
            processes.send(process, signal.SIGKILL)

    def bring_up(self, node: str | None = None) -> str:
        """Start the host and introduce it to the storage; returns its name."""
        made = self.hosts.make(node)
        self.introduce(made)
        return made

    def introduce(self, node: str) -> None:
        """Tell the storage which node the processes of this host belong to."""
        if self.run.storage is not None:
            self.run.storage.know(node, self.hosts.network(node))

    def processes_on(self, node: str) -> list[Process]:
        """The processes of the job on a host."""
        return processes.marked(self.run.spec.run_id, node=node)
