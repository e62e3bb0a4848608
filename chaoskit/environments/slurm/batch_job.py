"""`BatchJob`: the launches of a run: each is a job of Slurm, or the same one that Slurm starts again."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from chaoskit.environments.environment import EnvironmentEvent, ExtraEvent
from chaoskit.environments.launch.job_environment import job_environment
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.environments.slurm.allocated_nodes import AllocatedNodes
from chaoskit.environments.slurm.batch_launch import END_LIMIT, LOOK, BatchLaunch
from chaoskit.environments.slurm.commands import SlurmCommands
from chaoskit.environments.slurm.orders import What
from chaoskit.environments.slurm.queued_job import QueuedJob
from chaoskit.environments.slurm.run_mark import RunMark
from chaoskit.environments.slurm.signal_wish import SignalWish, signal_wish
from chaoskit.environments.slurm.slurm_error import SlurmError
from chaoskit.environments.slurm.submission import is_batch, must_suit, outranking, outside, rendezvous, submission
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.protocol import scheduled

#: Seconds for a job to start. Slurm makes a requeued one wait two minutes before it is eligible.
START_LIMIT = 900.0
#: In the directory of a run, the batch script of a job that is not one of the team's own.
SCRIPT = "in-allocation.sh"


class BatchJob:
    """Fulfils what `NodeProcesses` needs of a job. `nodes` are those of the job that runs."""

    def __init__(
        self, run: MachineRun, roster: NodeRoster, commands: SlurmCommands, *, partition: str = ""
    ) -> None:
        self.run, self.roster = run, roster
        self.nodes: AllocatedNodes | None = None
        self._commands, self._partition = commands, partition
        self._told: list[ExtraEvent] = []
        self._base = 0
        #: What the job that was submitted last says of the signal before its end.
        self.signal_wish: SignalWish | None = None
        #: The nodes on which no further job is to run.
        self._avoided: set[str] = set()
        #: A job of ours that preempts the other one.
        self._other: int | None = None

    @property
    def running(self) -> BatchLaunch | None:
        """The launch, until it has ended."""
        launch = self.run.launch
        return launch if isinstance(launch, BatchLaunch) and not self.run.has_ended else None

    def launch(self, index: int, command: Sequence[str]) -> str:
        """See `Environment`. Waits until Slurm has started the job. Raises UsageError for a job that Slurm does not
        take, or that asks for another number of nodes than the run has; ChaoskitError for one that does not start."""
        run = self.run
        last = run.launch
        run.close_launch()
        run.index = index
        requeued = isinstance(last, BatchLaunch) and last.was_requeued
        number = last.job.number if isinstance(last, BatchLaunch) and requeued else self._submit(index, command)
        try:
            if requeued:
                self._write_elsewhere(number, index)
            job = self._started(number, restarts=index - self._base)
        except BaseException:
            self.cancel(number)
            raise
        return run.start(index, lambda: self._begin(job))

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`."""
        return self.run.wait(timeout, news=self._news, patience=lambda: LOOK)

    def lose(self, node: str, *, replaced: bool) -> None:
        """Count the node as lost. Another one takes its place in the next job if it is `replaced`, or if the policy for
        lost nodes says so."""
        if replaced or self.run.spec.nodes.node_loss.lost != "returns":
            self._avoided.add(node)

    def add_node(self) -> str:
        """Raises LookupError: Slurm adds no node to a job."""
        raise LookupError("a job of Slurm keeps the nodes that it was started on")

    def remove_node(self, node: str) -> None:
        """Raises LookupError: Slurm takes no node from a job."""
        raise LookupError("a job of Slurm keeps the nodes that it was started on")

    @property
    def first_node(self) -> str:
        """The node on which the batch script runs. Raises LookupError if none runs."""
        return self._commands.names(self._must_run().node_list)[0]

    @property
    def tells_script_alone(self) -> bool:
        """Whether the job asks Slurm to send signals to its batch script alone (`--signal=B:USR1`)."""
        return self.signal_wish is not None and self.signal_wish.to_script

    def signal(self, signum: int) -> None:
        """Have Slurm send a signal to the job that runs, as its `--signal` says. Raises LookupError if none runs,
        SlurmError."""
        what: What = "signal script" if self.tells_script_alone else "signal"
        self._commands.do(what, self._must_run(), run=self.run.spec.run_id, signum=signum)

    def limit(self, minutes: int) -> float:
        """Have the job that runs reach its time limit within so many minutes; returns the seconds from the SIGTERM that
        Slurm then sends to its SIGKILL. Raises LookupError if none runs, or if that is no less than it has;
        SlurmError."""
        job = self._must_run()
        used, limit = self._commands.minutes(job)
        lowered = math.floor(used) + minutes
        if lowered >= limit:
            raise LookupError(f"job {job.number} has a time limit of {limit:g} minutes, and has run for {used:.1f}")
        self._commands.do("limit", job, run=self.run.spec.run_id, minutes=lowered)
        return self._commands.kill_wait()

    def put_back(self) -> QueuedJob:
        """Put the job that runs back into the queue, and hold it there. Raises LookupError if none runs, SlurmError."""
        job = self._must_run()
        self._commands.do("put back", job, run=self.run.spec.run_id)
        return job

    def outrank(self, partition: str, qos: str) -> tuple[QueuedJob, int]:
        """Submit a job that preempts the one that runs, on its very nodes: by its `partition` or its `qos`, where these
        are not "". Returns the one that runs, and the number of the other. Raises LookupError if none runs, if Slurm
        does not take the other, or without the QOS; SlurmError."""
        job = self._must_run()
        partition = partition or self._commands.shown(job.number, "Partition")
        words = outranking(job, mark=RunMark.of_run(self.run.spec.run_id), partition=partition, qos=qos)
        try:
            self._other = self._commands.submit(words, env=outside(os.environ), cwd=self.run.spec.cwd)
        except UsageError as error:
            raise LookupError(str(error)) from error
        if qos and self._commands.shown(self._other, "QOS").lower() != qos.lower():
            self.release()
            raise LookupError(f"Slurm has taken a job without its QOS {qos!r}: QOS need accounting (slurmdbd)")
        return job, self._other

    @property
    def is_back(self) -> bool:
        """Whether the newest launch has ended because its job is back in the queue, or was to make room for ours. A job
        that ends by itself in the grace of a preemption is not put back."""
        launch = self.run.launch
        if not isinstance(launch, BatchLaunch) or launch.ended() is None:
            return False
        return launch.was_requeued or (self._other is not None and launch.job.is_preempted)

    def release(self) -> None:
        """Let the job that was put back start again. Raises SlurmError."""
        other, self._other = self._other, None
        if other is not None:
            self.cancel(other)
            return
        launch = self.run.launch
        if isinstance(launch, BatchLaunch) and launch.was_requeued:
            self._commands.do("release", launch.job, run=self.run.spec.run_id)

    def cancel(self, number: int) -> None:
        """Cancel a job of this run, wherever it is. Raises ChaoskitError."""
        job = self._commands.job(number)
        if job is not None and not job.has_ended:
            self._commands.do("cancel", job, run=self.run.spec.run_id)

    def end(self) -> None:
        """End everything of the run, jobs that wait in the queue included, and wait until nothing of it is there.
        Raises ChaoskitError."""
        run, deadline = self.run.spec.run_id, time.monotonic() + END_LIMIT
        if self._other is not None:  # it would start once the other one has ended
            self.cancel(self._other)
        self.run.close_launch()
        while left := [job for job in self._commands.jobs() if job.mark is not None and job.mark.run == run]:
            if time.monotonic() > deadline:
                raise ChaoskitError(f"job {left[0].number} of Slurm was cancelled, and is still {left[0].state}")
            for job in left:
                if job.state != "COMPLETING":
                    self._commands.do("cancel", job, run=run)
            time.sleep(LOOK / 2)

    def _must_run(self) -> QueuedJob:
        launch = self.running
        if launch is None or launch.ended() is not None:
            raise LookupError("nothing of the job runs")
        return launch.job

    def _write_elsewhere(self, number: int, index: int) -> None:
        """Have the next start of a job that waits in the queue write to a log of its own, unless it has begun."""
        log = self.run.run_dir / "logs" / f"launch-{index}.log"
        log.touch()
        job = self._commands.job(number)
        if job is not None and job.state == "PENDING":
            with suppress(SlurmError):  # it begins at this moment, and goes on in the older log
                self._commands.do("write to", job, run=self.run.spec.run_id, path=log)

    def _submit(self, index: int, command: Sequence[str]) -> int:
        run, spec = self.run, self.run.spec
        must_suit(command, spec.cwd)
        self._base = index
        log = run.run_dir / "logs" / f"launch-{index}.log"
        log.touch()
        words = submission(
            command, mark=RunMark.of_run(spec.run_id), log=log, partition=self._partition, nodes=spec.nodes,
            avoided=sorted(self._avoided), script=run.run_dir / SCRIPT,
        )  # fmt: skip
        env = self._variables(index, command)
        self.signal_wish = signal_wish(command, spec.cwd, env)
        number = self._commands.submit(words, env=env, cwd=spec.cwd)
        job = self._commands.job(number)
        if job is None or job.mark is None or job.mark.run != spec.run_id:
            raise ChaoskitError(
                f"job {number} of Slurm, which chaoskit has just submitted, does not have its comment: a plugin of "
                f"this cluster changes comments; cancel it (scancel {number})"
            )
        why = self._unsuitable(job, command)
        if why:
            self.cancel(number)
            raise UsageError(why)
        return number

    def _unsuitable(self, job: QueuedJob, command: Sequence[str]) -> str:
        if job.is_array:
            return (
                f"{' '.join(command)}: it is an array of jobs, and chaoskit judges one: submit it without --array"
            )
        if job.nodes != self.run.spec.nodes.most:
            return (
                f"{' '.join(command)}: the job asks for {job.nodes} nodes, and chaoskit was told "
                f"{self.run.spec.nodes}: give chaoskit --nodes {job.nodes}"
            )
        return ""

    def _started(self, number: int, *, restarts: int) -> QueuedJob:
        """The job once it runs, or has run. Raises ChaoskitError."""
        deadline = time.monotonic() + START_LIMIT
        while True:
            job = self._commands.job(number)
            if job is None:
                raise ChaoskitError(f"Slurm does not know job {number} any more, which has not started")
            if job.restarts != restarts:
                raise ChaoskitError(
                    f"job {number} of Slurm was put back into the queue before it ran: run this again"
                )
            if job.has_ended or job.state in ("RUNNING", "COMPLETING"):
                return job
            if job.hopeless:
                raise UsageError(f"job {number} will not start: Slurm says {job.reason}: {job.hopeless}")
            if time.monotonic() > deadline:
                raise ChaoskitError(
                    f"job {number} has not started within {START_LIMIT:g} s: Slurm says {job.reason or job.state}; "
                    "choose a partition with free nodes, or run this again later"
                )
            time.sleep(LOOK / 2)

    def _begin(self, job: QueuedJob) -> BatchLaunch:
        assert self.nodes is not None, "the environment has not been entered"
        launch = BatchLaunch(self._commands, job, self.nodes, run=self.run.spec.run_id)
        try:
            if job.state == "RUNNING" and self.nodes.attach(job):
                for node in self.nodes.now:
                    self._tell("node.start", {"node": node, "pid": 0, "how": f"job {job.number}"})
        except BaseException:
            launch.close()
            raise
        return launch

    def _variables(self, index: int, command: Sequence[str]) -> Mapping[str, str]:
        """Those of the batch script, and with it of all its steps."""
        run, spec = self.run, self.run.spec
        gate = run.gate.door.environment if run.gate is not None else None
        env = job_environment(spec, run_dir=run.run_dir, launch=index, mode=run.mode, tmp=None, gate=gate)
        own = {} if is_batch(command) else rendezvous(spec.nodes, spec.run_id)
        told = {name: spec.env.get(name, value) for name, value in own.items()}
        return {
            **outside(env),
            **told,
            **scheduled.variables("SLURMD_NODENAME", "SLURM_RESTART_COUNT", first_launch=index),
        }

    def _news(self) -> list[EnvironmentEvent]:
        happened = self.run.happened()
        told, self._told = self._told, []
        return [*told, *happened]

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        self._told.append(ExtraEvent(kind, {"launch": self.run.index, **data}))
