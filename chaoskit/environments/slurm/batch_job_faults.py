"""`BatchJobFaults`: what can be done to a job of Slurm, by its agents and by the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.environments.agents.node_processes import NodeProcesses
from chaoskit.environments.slurm.allocated_nodes import AllocatedNodes
from chaoskit.environments.slurm.batch_job import BatchJob
from chaoskit.environments.slurm.slurm_error import SlurmError


class BatchJobFaults(NodeProcesses):
    """Fulfils `CanLoseNodes` and `CanSuspend`. Of a lost node every process of the job is killed, and Slurm decides
    what follows; the machine itself stays up, since it may have jobs of others. A suspended job is put back into the
    queue, where it waits until it is released."""

    job: BatchJob
    #: The nodes on which no process of the job was left.
    _lost: set[str]

    @property
    def agents(self) -> AllocatedNodes:
        """See `NodeProcesses`."""
        raise NotImplementedError

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        """See `CanLoseNodes`. The node is replaced when the job is started again."""
        self._must_run(node)
        found = self.agents.now[node]
        ended = found.agent.ask("end", run_id=self.job.run.spec.run_id)
        if not self.pids_on(node):
            self._lost.add(node)
        self.job.lose(node, replaced=replaced)
        return {"ended": ended, "mark": found.mark, "isolated_by": "nothing: its machine stays up"}

    def is_lost(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        return node in self._lost

    def freeze_node(self, node: str) -> Mapping[str, Any]:
        """See `CanLoseNodes`."""
        self._must_run(node)
        return {"pids": self.agents.now[node].agent.ask("freeze", run_id=self.job.run.spec.run_id)}

    def is_frozen(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        return bool(self.agents.ask(node, "is_frozen", run_id=self.job.run.spec.run_id))

    def thaw_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        self.agents.ask(node, "thaw", run_id=self.job.run.spec.run_id)

    def suspend(self, partition: str = "", qos: str = "") -> Mapping[str, Any]:
        """See `CanSuspend`: `scontrol requeuehold`, or a job that preempts. Raises LookupError for a job that may not
        be requeued."""
        if partition or qos:
            job, other = self.job.outrank(partition, qos)
            return {
                "job": job.number,
                "restarts": job.restarts,
                "nodes": list(self.nodes()),
                "preempted_by": other,
            }
        try:
            job = self.job.put_back()
        except SlurmError as error:
            raise LookupError(
                f"{error}: a job that is submitted with --requeue can be put back into the queue"
            ) from error
        return {"job": job.number, "restarts": job.restarts, "nodes": list(self.nodes())}

    def is_suspended(self) -> bool:
        """See `CanSuspend`: nothing of the job runs, and Slurm has counted one more restart of it, or has noted when it
        was preempted."""
        return self.job.is_back

    def resume(self) -> None:
        """See `CanSuspend`: `scontrol release`, or the end of the job that has preempted."""
        self.job.release()

    def _must_run(self, node: str) -> None:
        if self.job.running is None or node not in self.agents.now:
            raise LookupError(f"{node} is not up, or nothing of the job runs there")
