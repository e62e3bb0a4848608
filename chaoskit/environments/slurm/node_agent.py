"""The agent on a node of a Slurm job: a step beside the job's own steps, which answers for the job's processes there.

A script (`python -I -S node_agent.py ADDRESS TOKEN_FILE`), started by srun once on each node of the job; it and all
that it imports need the standard library alone. It ends when the harness lets go of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Container
from pathlib import Path

if __name__ == "__main__":
    _own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _own]
    _path = os.path.join(os.path.dirname(os.path.dirname(_own)), "protocol", "bootstrap.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.environments.agents.agent import Agent, greet
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.machine.serve import serve

#: What Slurm sends to all steps of a job, this one included, and what is meant for the job.
_FOR_THE_JOB = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
#: What starts the batch script and the tasks of a job.
_STARTER = "slurmstepd"


class NodeAgent(Agent):
    """See `Agent`; also what needs to be known of a job that somebody else has started. It notes the signals that Slurm
    sends to all steps of the job."""

    def __init__(self, door: str, token: str = "") -> None:
        super().__init__(door, token)
        #: How often each signal has come.
        self._signals: dict[int, int] = dict.fromkeys(_FOR_THE_JOB, 0)
        for signum in _FOR_THE_JOB:
            signal.signal(signum, self._note)

    def signalled(self, signum: int) -> int:
        """How often Slurm has sent this signal to all steps."""
        return self._signals.get(signum, 0)

    def wakings(self, pid: int, started: int) -> int:
        """How often this process has gone to sleep after it had been woken."""
        return processes.wakings(Process(pid, started))

    def started_by(self, run_id: str, pids: list[int]) -> list[list[int]]:
        """The processes of the job that these have started, and those in turn, as pid and start."""
        return [[each.pid, each.started] for each in processes.started_by(pids, run_id)]

    def launchers(self, run_id: str) -> list[list[int]]:
        """The processes of the job here that no process of the job has started, as pid and start, the oldest first: the
        batch script, and what its steps run."""
        own = sorted(processes.marked(run_id), key=lambda process: (process.started, process.pid))
        pids = {process.pid for process in own}
        return [[process.pid, process.started] for process in own if processes.parent(process.pid) not in pids]

    def end(self, run_id: str) -> list[int]:
        """Kill every process of the job here; returns their pids."""
        return [process.pid for process in processes.end_marked(run_id)]

    def end_orphans(self, run_id: str) -> list[int]:
        """Kill what the job has left here in sessions of their own, with nothing of Slurm above; returns the pids. An
        srun or a tee that has lost its batch script ends by itself, and is still needed until then."""
        own = {process.pid: process for process in processes.marked(run_id)}
        found = [process for process in own.values() if _is_orphaned(process.pid, own)]
        return [process.pid for process in found if processes.send(process, signal.SIGKILL)]

    def _note(self, signum: int, _: object) -> None:
        self._signals[signum] += 1


def _is_orphaned(pid: int, own: Container[int]) -> bool:
    """Whether the process, or the first of its ancestors among the job's `own`, has a session of its own, and was not
    started by Slurm."""
    while (above := processes.parent(pid)) is not None and above in own:
        pid = above
    try:
        return os.getsid(pid) == pid and Path(f"/proc/{above}/comm").read_text().strip() != _STARTER
    except OSError:
        return False  # gone meanwhile


def main(door: str, token_file: str) -> None:
    """Serve until the harness is gone, or has let go."""
    for signum in _FOR_THE_JOB:  # until the agent notes them
        signal.signal(signum, signal.SIG_IGN)
    node = os.environ["SLURMD_NODENAME"]
    try:
        token = Path(token_file).read_text()
    except OSError as error:
        sys.exit(f"{node} does not see the files of the run as chaoskit does: {error}")
    try:
        line = greet(door, {"agent": node, "pid": os.getpid()}, token=token)
    except OSError as error:
        sys.exit(f"{node} does not reach chaoskit at {door}: {error}")
    serve(line, NodeAgent(door, token))


if __name__ == "__main__":
    main(*sys.argv[1:])
