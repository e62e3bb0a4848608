"""`JobNotices`: nodes of a Slurm job are given notice, by Slurm itself where it can, and are then taken away."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.environments.machine.preemptions import Preemption, Preemptions
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.slurm.batch_job import BatchJob
from chaoskit.environments.slurm.batch_job_faults import BatchJobFaults


class JobNotices(BatchJobFaults, Preemptions):
    """Fulfils `CanPreempt`. The notice of Slurm (`to_children`) is sent by `scancel`, once to the whole job: Slurm
    tells jobs, and not nodes. All other signals are sent by the agents, to the processes on one node. At the end,
    everything of the job on the node is killed."""

    job: BatchJob

    def __init__(self) -> None:
        Preemptions.__init__(self)
        #: By node, how often its agent had got each signal of Slurm's before the newest notice.
        self._before: dict[str, int] = {}
        #: How often the batch script had been woken before the newest notice, if that is for the script alone.
        self._script: tuple[str, Process] | None = None
        self._woken = 0

    def preemptible(self) -> tuple[str, ...]:
        """See `CanPreempt`."""
        return self.nodes()

    def node_of(self, rank: int) -> str:
        """See `CanPreempt`. Raises LookupError for a rank that is not there."""
        for node in self.nodes():
            if rank in self.ranks_of(node):
                return node
        raise LookupError(f"rank {rank} has not come up yet, or is gone")

    def command_on(self, node: str) -> Process | None:
        """See `Preemptions`."""
        found = self.agents.ask(node, "launchers", run_id=self.run.spec.run_id) if self.job.running else None
        return Process(*found[-1]) if found else None

    def started_by(self, node: str, above: Sequence[Process]) -> list[Process]:
        """See `Preemptions`."""
        found = self.agents.ask(node, "started_by", run_id=self.run.spec.run_id, pids=[each.pid for each in above])
        return [Process(*each) for each in found or ()]

    def take_node(self, node: str) -> None:
        """See `Preemptions`. Slurm decides where the job runs next."""
        if self.job.running is not None and node in self.agents.now:
            self.lose_node(node)

    def send(self, node: str, process: Process, signum: int) -> None:
        """See `Preemptions`."""
        self.agents.ask(node, "signal", pid=process.pid, started=process.started, signum=signum)

    def send_notice(self, node: str, made: Preemption, signum: int) -> None:
        """See `Preemptions`. Raises SlurmError where Slurm does not take the order."""
        if not made.notice.to_children:
            super().send_notice(node, made, signum)
            return
        if any(other is not made and self._is_same(other, made) for other in self._preemptions.values()):
            return  # it was sent to the whole job, this node included
        if made.given == 1:
            self._before = self.agents.ask_all("signalled", signum=signum)
            self._script = self._batch_script() if self.job.tells_script_alone else None
            self._woken = self._wakings()
        self.job.signal(signum)

    def has_taken(self, node: str, target: Process, made: Preemption, signum: int) -> bool:
        """See `Preemptions`. Slurm sends its notice to all steps at once, also to that of the agent: once it has come
        there, it has come to the ranks of the node, too. If it is for the batch script alone, that has woken up."""
        if made.notice.to_children:
            if self._script is not None:
                return self._wakings() > self._woken
            heard = self.agents.ask(node, "signalled", signum=signum)
            if heard is None or heard <= self._before.get(node, 0):
                return False
        given = {"pid": target.pid, "started": target.started, "signum": signum}
        return bool(self.agents.ask(node, "delivered", **given))

    def _is_same(self, other: Preemption, made: Preemption) -> bool:
        return other.notice == made.notice and other.given >= made.given and not other.is_over

    def _batch_script(self) -> tuple[str, Process] | None:
        """The process of the batch script, and the node that it is on: the first of the job."""
        node = self.job.first_node
        found = self.agents.ask(node, "launchers", run_id=self.run.spec.run_id)
        return (node, Process(*found[0])) if found else None

    def _wakings(self) -> int:
        """How often the batch script has been woken. It sleeps while it waits for the job."""
        if self._script is None:
            return 0
        node, process = self._script
        return int(self.agents.ask(node, "wakings", pid=process.pid, started=process.started) or 0)
