"""`AgentRestarts`: notices that the job's own agent starts the ranks again, inside one launch.

torchrun with `--max-restarts` needs no relaunch: its agents end the ranks that are left, meet, and start new ones. What
strikes or heals between two launches strikes and heals there too. There are two signs. After a fault has ended a rank,
the other ranks are gone as well, while the agent may still restart them: nobody has met again by then. Where that was
not seen, or the agent restarts for another reason, a rank comes to its gate in a new process.
"""

from __future__ import annotations

from collections.abc import Iterable

from chaoskit.capabilities import CanSignal, ProcessRef
from chaoskit.environments.environment import Arrived, Environment
from chaoskit.job import Job

#: Seconds between two looks at ranks that are about to be gone.
LOOK_EVERY = 0.005


class AgentRestarts:
    """`count` is the number of restarts inside the launches of one run, so far."""

    def __init__(self, env: Environment, job: Job) -> None:
        self.count = 0
        self._env = env
        self._most = job.agent_restarts
        self._launch = -1
        self._in_launch = 0
        #: By rank: its process in this incarnation.
        self._processes: dict[int, ProcessRef] = {}
        #: The ranks' processes when the first fault of this incarnation was applied, and whether one is gone since.
        self._struck: list[ProcessRef] = []
        self._falling = False
        #: The agents at that time.
        self._agents: list[ProcessRef] = []
        #: A restart was counted because the ranks were gone, and none has come up again so far.
        self._assumed = False

    @property
    def is_falling(self) -> bool:
        """Whether a fault has ended a rank, so that it is worth looking whether the others are gone."""
        return self._falling

    def fault_applies(self) -> None:
        """Remember the living ranks: a fault is about to be applied."""
        if self._struck or self._in_launch >= self._most or not isinstance(self._env, CanSignal):
            return
        self._struck = list(_living(self._env, self._processes))
        self._agents = _launchers(self._env)

    def are_gone(self) -> bool:
        """Whether the fault that was observed last has ended a rank, and by now all of them are gone. It says so
        once, after which the next incarnation counts."""
        if not self._struck:
            return False
        assert isinstance(self._env, CanSignal)
        gone = [self._env.state(process) == "gone" for process in self._struck]
        # Without its agent the job needs a relaunch.
        ended = not self._agents or any(self._env.state(agent) == "gone" for agent in self._agents)
        self._falling = any(gone) and not ended
        if not self._falling:
            self._struck = []  # a fault that ends no process: the job goes on, and ends some day by itself
        if not (self._falling and all(gone)):
            return False
        self._next()
        self._assumed = True
        return True

    def launch_ended(self) -> None:
        """The agent has ended: what follows is a relaunch. A restart that was assumed and brought no rank was none."""
        if self._assumed:
            self.count -= 1
        self._forget()

    def arrived(self, arrived: Arrived) -> bool:
        """Whether this arrival is the first sign of ranks that the agent has started again."""
        if arrived.launch != self._launch:
            self._launch, self._in_launch = arrived.launch, 0
            self._forget()
        self._assumed = False
        process = ProcessRef(arrived.pid, arrived.key)
        again = self._processes.get(arrived.rank, process) != process
        if again:
            self._next()
        self._processes[arrived.rank] = process
        return again

    def _next(self) -> None:
        self._in_launch += 1
        self._forget()

    def _forget(self) -> None:
        self._processes.clear()
        self._struck, self._falling, self._assumed = [], False, False


def _launchers(env: CanSignal) -> list[ProcessRef]:
    try:
        return list(env.launcher_processes())
    except LookupError:
        return []


def _living(env: CanSignal, ranks: Iterable[int]) -> Iterable[ProcessRef]:
    for rank in ranks:
        try:
            yield env.rank_process(rank)
        except LookupError:
            continue
