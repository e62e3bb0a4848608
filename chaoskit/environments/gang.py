"""`Gang`: one launch of a job over several nodes, all or none, as a scheduler runs it.

It is a `Launch` like any other: it has ended with 0 once the agent of every node has. When an agent fails by itself,
the others are told to end (SIGTERM), and ended a while later.
"""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.capabilities import Process
from chaoskit.environments import processes
from chaoskit.launch.launcher import Launch, LaunchEnd

#: How many seconds an agent has to end its ranks once it is told to, before all of them are killed (Slurm's KillWait
#: is 30). torchrun itself waits as long for a rank that does not heed it.
KILL_WAIT = 10.0

#: Told of nodes: `node.start` and `node.end`, with what the record shall hold.
Tell = Callable[[str, dict[str, Any]], None]


@dataclass
class Member:
    """The agent of one node. `cause` says who had it end: `itself`, or why it was ended."""

    launch: Launch
    end: LaunchEnd | None = None
    cause: str = "itself"


class Gang:
    """`start` starts the agent of a node, `tell` is told of each that starts or ends."""

    def __init__(self, nodes: Sequence[str], *, start: Callable[[str], Launch], tell: Tell) -> None:
        self._start, self._tell = start, tell
        self._members: dict[str, Member] = {}
        self._past: list[Member] = []
        self._ears = select.epoll()
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
        """The agents that still run, by node."""
        return {node: m.launch.process for node, m in self._members.items() if m.end is None}

    @property
    def is_failing(self) -> bool:
        """Whether an agent has failed, so that nobody may join any more."""
        return self._failed is not None

    @property
    def patience(self) -> float:
        """For how many seconds nothing needs to be done unless something happens."""
        if self._failed is None or not self.agents:
            return float("inf")
        return max(0.0, self._failed + KILL_WAIT - time.monotonic())

    def fileno(self) -> int:
        """See `Launch.fileno`."""
        return self._ears.fileno()

    def join(self, node: str) -> None:
        """Start the agent of a node, in place of an older one of that name, which has ended."""
        launch = self._start(node)
        if node in self._members:
            self._past.append(self._members.pop(node))
        self._members[node] = Member(launch)
        self._ears.register(launch, select.EPOLLIN)
        self._tell("node.start", {"node": node, "pid": launch.process.pid, "how": launch.how})

    def end(self, node: str, *, cause: str) -> tuple[Mapping[str, Any], ...]:
        """End all that runs on a node at once; who that was."""
        member = self._members[node]
        ended = member.launch.stop()
        if member.end is None:
            member.cause = cause
            self._note(node, member, member.launch.ended() or LaunchEnd(-signal.SIGKILL))
        return ended

    def ask_to_end(self, node: str, *, cause: str) -> None:
        """Send SIGTERM to the agent of a node; that it fails is then no failure."""
        member = self._members[node]
        if member.end is None:
            member.cause = cause
            processes.send(member.launch.process, signal.SIGTERM)

    def fail(self) -> None:
        """Tell all agents to end: the job is to be started again as a whole."""
        if self._failed is None:
            self._failed = time.monotonic()
            for node in self.agents:
                self.ask_to_end(node, cause="supervisor")

    def ended(self) -> LaunchEnd | None:
        """See `Launch.ended`."""
        for node, member in self._members.items():
            if member.end is None and (end := member.launch.ended()) is not None:
                self._note(node, member, end)
        if any(self._has_failed(member) for member in self._members.values()):
            self.fail()
        if self._failed is not None and self.patience <= 0:
            for node in self.agents:
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
            self._ears.close()

    def _note(self, node: str, member: Member, end: LaunchEnd) -> None:
        member.end = end
        self._ears.unregister(member.launch)
        self._tell("node.end", {"node": node, "code": end.code, "cause": member.cause})

    def _has_failed(self, member: Member) -> bool:
        return member.end is not None and member.cause == "itself" and member.end.code != 0

    def _code(self) -> int:
        """That of who failed; 0 where nobody did and somebody came to the end; of all lost or told to end, SIGKILL."""
        codes = [m.end.code for m in self._members.values() if m.end is not None and m.cause == "itself"]
        done = codes and self._failed is None
        return next((code for code in codes if code != 0), 0 if done else -signal.SIGKILL)
