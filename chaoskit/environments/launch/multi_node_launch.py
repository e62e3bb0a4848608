"""`MultiNodeLaunch`: one launch of a job on several nodes, all or none, as a scheduler runs it.

It is a `Launch` like any other. It has ended with 0 when the agent of every node has ended with 0. If an agent
fails by itself, the others get SIGTERM, and SIGKILL a while later.
"""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.launch.launcher import LaunchEnd, NodeLaunch
from chaoskit.environments.machine.processes import Process

#: Seconds that an agent has to end its ranks after SIGTERM, before all of them are killed (Slurm's KillWait
#: is 30). torchrun itself waits as long for a rank that ignores the signal.
KILL_WAIT = 10.0

#: Called with `node.start` and `node.end`, and the data for the record.
Tell = Callable[[str, dict[str, Any]], None]


@dataclass
class Member:
    """The agent of one node. `cause` says why it ended: `itself`, or the reason for which it was ended. One that is
    `leaving` gets its signals from somebody else."""

    launch: NodeLaunch
    end: LaunchEnd | None = None
    cause: str = "itself"
    leaving: bool = False


class MultiNodeLaunch:
    """Calls `start` to start the agent of a node, and `tell` for each agent that starts or ends. If not `together`, an
    agent that fails leaves the others alone, and another may join in its place: then the launch has ended when no agent
    runs, with 0 if all that are left have ended with 0."""

    def __init__(
        self, nodes: Sequence[str], *, start: Callable[[str], NodeLaunch], tell: Tell, together: bool = True
    ) -> None:
        self._start, self._tell, self._together = start, tell, together
        self._members: dict[str, Member] = {}
        self._past: list[Member] = []
        self._poll = select.epoll()
        self._failed: float | None = None
        try:
            for node in nodes:
                self.join(node)
        except BaseException:
            self.close()
            raise

    @property
    def how(self) -> str:
        """See `Launch.how`: of the first node whose agent was not started warm."""
        hows = [member.launch.how for member in self._members.values()]
        return next((how for how in hows if how != "warm"), "warm")

    @property
    def process(self) -> Process:
        """The agent of the first node."""
        return next(iter(self._members.values())).launch.process

    @property
    def agents(self) -> dict[str, Process]:
        """The agents that are still running, by node."""
        return {node: m.launch.process for node, m in self._members.items() if m.end is None}

    @property
    def is_failing(self) -> bool:
        """Whether an agent has failed. Then no node may join any more."""
        return self._failed is not None

    @property
    def patience(self) -> float:
        """Seconds until the next timer is due."""
        if self._failed is None or not self._ours:
            return float("inf")
        return max(0.0, self._failed + KILL_WAIT - time.monotonic())

    def fileno(self) -> int:
        """See `Launch.fileno`."""
        return self._poll.fileno()

    def join(self, node: str) -> None:
        """Start the agent of a node. An older agent of that node has ended."""
        launch = self._start(node)
        if node in self._members:
            self._past.append(self._members.pop(node))
        self._members[node] = Member(launch)
        self._poll.register(launch, select.EPOLLIN)
        self._tell("node.start", {"node": node, "pid": launch.process.pid, "how": launch.how})

    def end(self, node: str, *, cause: str) -> tuple[Mapping[str, Any], ...]:
        """Kill everything on a node; returns what was killed."""
        member = self._members[node]
        ended = member.launch.stop()
        if member.end is None:
            member.cause = cause
            self._note(node, member, member.launch.ended() or LaunchEnd(-signal.SIGKILL))
        return ended

    def ask_to_end(self, node: str, *, cause: str) -> None:
        """Send SIGTERM to the agent of a node. Its exit code then counts as no failure."""
        member = self._members[node]
        if member.end is None:
            member.cause = cause
            member.launch.ask_to_end()

    def leave_to_others(self, node: str, *, cause: str) -> None:
        """Let somebody else end the agent of a node, in their own time: it gets no signal from here until `stop`. Its
        exit code then counts as no failure."""
        member = self._members[node]
        member.cause, member.leaving = cause, True

    def fail(self) -> None:
        """Ask all agents to end: the whole job is to be started again."""
        if self._failed is None:
            self._failed = time.monotonic()
            for node in self._ours:
                self.ask_to_end(node, cause="supervisor")

    def ended(self) -> LaunchEnd | None:
        """See `Launch.ended`."""
        for node, member in self._members.items():
            if member.end is None and (end := member.launch.ended()) is not None:
                self._note(node, member, end)
        if any(self._has_failed(member) for member in self._members.values()):
            self.fail()
        if self._failed is not None and self.patience <= 0:
            for node in self._ours:
                self.end(node, cause="supervisor")
        if self.agents:
            return None
        everybody = [*self._past, *self._members.values()]
        survivors = [each for member in everybody if member.end is not None for each in member.end.survivors]
        return LaunchEnd(self._code(), tuple(survivors))

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """See `Launch.stop`."""
        if self.agents and self._failed is None:
            self._failed = time.monotonic()  # whoever has come to the end, the job has not
        return tuple(each for node in self.agents for each in self.end(node, cause="stop"))

    def close(self) -> None:
        """See `Launch.close`."""
        try:
            for member in (*self._past, *self._members.values()):
                member.launch.close()
        finally:
            self._poll.close()

    @property
    def _ours(self) -> list[str]:
        """The nodes whose agents still run and get their signals from here."""
        return [node for node in self.agents if not self._members[node].leaving]

    def _note(self, node: str, member: Member, end: LaunchEnd) -> None:
        member.end = end
        self._poll.unregister(member.launch)
        self._tell("node.end", {"node": node, "code": end.code, "cause": member.cause})

    def _has_failed(self, member: Member) -> bool:
        failed = member.end is not None and member.cause == "itself" and member.end.code != 0
        return failed and self._together

    def _code(self) -> int:
        """The exit code: of the agent that failed; 0 if none failed and one completed; SIGKILL if all were lost or
        ended.
        """
        codes = [m.end.code for m in self._members.values() if m.end is not None and m.cause == "itself"]
        if not self._together:
            others = [m.end.code for m in self._members.values() if m.end is not None and m.cause != "itself"]
            return next((code for code in [*codes, *others] if code != 0), 0)
        done = codes and self._failed is None
        return next((code for code in codes if code != 0), 0 if done else -signal.SIGKILL)
