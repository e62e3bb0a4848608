"""`SlurmEnvironment`: the team's own batch script on its own Slurm cluster, or a command in an allocation there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaoskit.environments.agents.agent_line import AgentDoor
from chaoskit.environments.environment import EnvironmentEvent, RunSpec
from chaoskit.environments.gate.doors import TcpDoor
from chaoskit.environments.machine import requirements
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.environments.machine.run_files import RunFiles
from chaoskit.environments.registry import register_environment
from chaoskit.environments.slurm.allocated_nodes import TOKEN, AllocatedNodes
from chaoskit.environments.slurm.batch_job import BatchJob
from chaoskit.environments.slurm.commands import SlurmCommands
from chaoskit.environments.slurm.job_notices import JobNotices
from chaoskit.environments.slurm.job_time_limit import JobTimeLimit
from chaoskit.environments.slurm.orders import PROGRAMS
from chaoskit.environments.slurm.submission import must_suit
from chaoskit.environments.slurm.sweeping import swept
from chaoskit.environments.traits import EnvironmentTraits
from chaoskit.files.removal import remove
from chaoskit.job import Job

MOST_NODES = 32
#: How many nodes the jobs of one run may have been on, one after the other.
_ALL_NODES = 4096
_TICKS = os.sysconf("SC_CLK_TCK")


class SlurmEnvironment(RunFiles, JobTimeLimit):
    """Runs a job of Slurm; fulfils `Environment`, the capabilities of `RunFiles`, since all nodes share the directory
    of the run, `CanSignal` and `CanShowActivity` by an agent on each node, and those of `BatchJobFaults`,
    `JobNotices` and `JobTimeLimit`."""

    traits = EnvironmentTraits(
        name="slurm",
        summary="nodes of a Slurm cluster, by the team's own batch script",
        needs="the commands of Slurm, and a directory that all nodes share",
        nodes_most=MOST_NODES,
        shares_files=True,
        one_clock=False,
        options=("partition",),
    )

    def __init__(self, spec: RunSpec) -> None:
        # Slurm confines a job itself.
        RunFiles.__init__(self, MachineRun(replace(spec, limits=()), identify=self.identify))
        JobNotices.__init__(self)
        self._commands, self._lost = SlurmCommands(), set()
        self.job = BatchJob(self.run, NodeRoster(_ALL_NODES), self._commands, partition=spec.partition)

    @staticmethod
    def available() -> str | None:
        """None if this machine has the commands of Slurm, else the reason and the remedy."""
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            return f"there is no {missing[0]} on the PATH: run chaoskit on a login node of the cluster"
        return requirements.why_not()

    @staticmethod
    def storage_available() -> str | None:
        """None: it has no storage of ours."""
        return None

    @staticmethod
    def lacks(capability: type, job: Job | None) -> str | None:
        """None: what its class can, it can everywhere."""
        return None

    @staticmethod
    def rests_on(job: Job) -> Mapping[str, Any]:
        """Nothing but the files of the job. Raises UsageError for a batch command that cannot be used, SlurmError
        where no controller answers."""
        must_suit(job.words(), job.directory)
        SlurmCommands().jobs()
        return {}

    @staticmethod
    def sweep(root: Path) -> tuple[str, ...]:
        """Jobs in the queue whose harness is dead. Raises SlurmError where no controller answers."""
        return swept(SlurmCommands()) if SlurmEnvironment.available() is None else ()

    @staticmethod
    def path_here(job: Job, path: str) -> str | None:
        """Files are the same on all nodes."""
        return path

    @property
    def agents(self) -> AllocatedNodes:
        """See `NodeProcesses`."""
        assert self.job.nodes is not None, "the environment has not been entered"
        return self.job.nodes

    def __enter__(self) -> SlurmEnvironment:
        run, spec = self.run, self.run.spec
        address = self._commands.own_address()
        swept(self._commands)
        run.begin(door=lambda: TcpDoor("0.0.0.0", known_as=address))
        try:
            door = AgentDoor(TcpDoor("0.0.0.0", known_as=address))
            run.keep(door.close)
            token = run.run_dir / TOKEN
            token.touch(mode=0o600)
            token.write_text(door.token)
            run.keep(lambda: remove(token, within=run.run_dir))
            nodes = AllocatedNodes(
                self._commands, door=door, roster=self.job.roster, run=spec.run_id, run_dir=run.run_dir
            )
            self.job.nodes = nodes
            run.keep(nodes.let_go)
            run.keep(self.job.end)
        except BaseException:
            run.end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.run.end()

    def launch(self, index: int, command: Sequence[str]) -> str:
        """See `Environment`."""
        return self.job.launch(index, command)

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`. Raises ChaoskitError where Slurm does not answer."""
        return self.look_at_notices(self.job.wait(timeout))

    def began(self, hello: Mapping[str, Any]) -> float:
        """See `NodeProcesses`: two nodes were started at different times."""
        return self.agents.now[str(hello["node"])].booted + float(hello["start"]) / _TICKS


register_environment(SlurmEnvironment)
