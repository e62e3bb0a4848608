"""`Preemptions`: nodes are given notice, as clouds and schedulers give it, and are then taken away."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit.capabilities import PreemptionNotice
from chaoskit.environments.environment import Ended, EnvironmentEvent
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.metadata.notice_board import NoticeBoard

#: What a request to a metadata service is told that asks in the wrong way.
_REFUSED = (400, 401, 403)


@dataclass
class Preemption:
    """One notice and what has become of it. Times are of the monotonic clock; `ended`, `killed`, `withdrawn` and
    `received` are seconds since the notice. `given` is how often it has come."""

    notice: PreemptionNotice
    since: float
    agent: Process
    board: NoticeBoard | None = None
    targets: Sequence[Process] = ()
    given: int = 0
    received: dict[int | None, Mapping[str, Any]] = field(default_factory=dict)
    ended: float | None = None
    killed: float | None = None
    withdrawn: float | None = None
    shut_down: float | None = None
    is_over: bool = False

    @property
    def end(self) -> float:
        """When it is over."""
        return self.since + self.notice.seconds

    @property
    def wants_end_now(self) -> bool:
        """Whether the job has said that nothing need wait any longer."""
        return self.board is not None and self.board.notice is not None and self.board.notice.started


class Preemptions:
    """Fulfils `CanPreempt` for an environment with this `run`. Its nodes are on this machine, unless it says how
    signals reach the processes on them."""

    run: MachineRun

    def __init__(self) -> None:
        #: By node, the newest notice to it.
        self._preemptions: dict[str, Preemption] = {}

    def preemptible(self) -> tuple[str, ...]:
        """See `CanPreempt`."""
        raise NotImplementedError

    def command_on(self, node: str) -> Process | None:
        """The job's command on that node, None if none runs there."""
        raise NotImplementedError

    def ranks_on(self, node: str) -> Mapping[int, Process]:
        """The living ranks on that node, by number."""
        raise NotImplementedError

    def take_node(self, node: str) -> None:
        """Kill everything on the node, if anything is there, and let a fresh one take its place."""
        raise NotImplementedError

    def started_by(self, node: str, above: Sequence[Process]) -> list[Process]:
        """The processes of the run on that node that these have started, and those in turn."""
        return processes.started_by([each.pid for each in above], self.run.spec.run_id)

    def send(self, node: str, process: Process, signum: int) -> None:
        """Send a signal to a process on that node, unless it has ended."""
        processes.send(process, signum)

    def send_notice(self, node: str, made: Preemption, signum: int) -> None:
        """Give notice by this signal."""
        for target in made.targets:
            self.send(node, target, signum)

    def has_taken(self, node: str, target: Process, made: Preemption, signum: int) -> bool:
        """Whether the signal of the notice has reached that process."""
        return processes.delivered(target, signum)

    def preempt(self, node: str, notice: PreemptionNotice) -> None:
        """See `CanPreempt`."""
        agent = self.command_on(node)
        if agent is None:
            raise LookupError(f"{node} is not up, or nothing of the job runs there")
        board = None
        if notice.cloud:
            if self.run.metadata is None:
                raise LookupError(f"no metadata service answers on {node}")
            board = self.run.metadata.board(node)
        targets: list[Process] = []
        if notice.signal is not None:
            ranks = self.ranks_on(node)
            chosen = ranks if notice.rank is None else {n: each for n, each in ranks.items() if n == notice.rank}
            targets = [agent] if notice.to_agent else [*chosen.values()]
            if not targets:
                raise LookupError(f"no rank on {node} that could get the signal has come up yet")
            if notice.to_children:
                targets += self.started_by(node, targets)
        made = Preemption(notice, time.monotonic(), agent, board, targets)
        self._preemptions[node] = made
        self._give(node, made)

    def preempted(self, node: str) -> Mapping[str, Any] | None:
        """See `CanPreempt`."""
        made = self._preemptions[node]
        self._look(node, made)
        if not made.is_over:
            return None
        heard = self.run.metadata.heard(node, made.since) if made.board is not None and self.run.metadata else []
        return {
            "received": sorted(made.received.values(), key=lambda each: float(each["after"])),
            "asked": len(heard),
            "refused": sum(each["status"] in _REFUSED for each in heard),
            "times": made.given,
            "shutdown": made.shut_down,
            "ended": made.ended,
            "killed": made.killed,
            "withdrawn": made.withdrawn,
        }

    def look_at_notices(self, happened: list[EnvironmentEvent]) -> list[EnvironmentEvent]:
        """Look at each notice that stands. One is over when the launch ends: nothing is left that it could tell, and
        nothing is launched on a node that is about to be taken away."""
        has_ended = any(isinstance(event, Ended) for event in happened)
        for node, made in self._preemptions.items():
            self._look(node, made, has_ended=has_ended)
        return happened

    def _look(self, node: str, made: Preemption, *, has_ended: bool = False) -> None:
        if made.is_over:
            return
        now, notice = time.monotonic(), made.notice
        self._see_receipt(node, made)
        if made.ended is None and (has_ended or self.command_on(node) is None):
            made.ended = round(now - made.since, 3)
        if made.withdrawn is None and notice.withdrawn is not None and now >= made.since + notice.withdrawn:
            made.withdrawn = round(now - made.since, 3)
            self._take_back(made)
        if made.withdrawn is None and now >= made.since + made.given * notice.seconds / notice.times < made.end:
            self._give(node, made)
        if notice.shutdown is not None and made.shut_down is None and now >= made.end - notice.shutdown:
            made.shut_down = round(now - made.since, 3)
            self.send(node, made.agent, signal.SIGTERM)
        if now >= made.end or has_ended or made.wants_end_now:
            self._finish(node, made)

    def _finish(self, node: str, made: Preemption) -> None:
        if made.notice.kills:
            if made.ended is None:
                made.killed = round(time.monotonic() - made.since, 3)
            self.take_node(node)
        self._take_back(made)
        made.is_over = True

    def _give(self, node: str, made: Preemption) -> None:
        made.given += 1
        notice = made.notice
        if made.board is not None:
            made.board.post(seconds=made.end - time.monotonic())
        if notice.signal is not None:
            self.send_notice(node, made, notice.signal)
        if notice.file:
            Path(notice.file).touch()
            self.run.keep(lambda: Path(notice.file).unlink(missing_ok=True))

    def _take_back(self, made: Preemption) -> None:
        if made.board is not None:
            made.board.withdraw()
        if made.notice.file:
            with suppress(OSError):
                Path(made.notice.file).unlink()

    def _see_receipt(self, node: str, made: Preemption) -> None:
        """Note who has learnt of the notice: who was told by the metadata service, whom the signal has reached. Who has
        looked at a file, nobody can see."""
        now = time.monotonic()
        if made.board is not None and self.run.metadata is not None:
            for each in self.run.metadata.heard(node, made.since):
                if each["notice"] and each["pid"] not in made.received:
                    about = {name: each[name] for name in ("pid", "rank", "method", "path")}
                    made.received[each["pid"]] = {**about, "after": round(each["answered"] - made.since, 3)}
        signum = made.notice.signal
        if signum is not None:
            for target in made.targets:
                if target.pid not in made.received and self.has_taken(node, target, made, signum):
                    made.received[target.pid] = {"pid": target.pid, "after": round(now - made.since, 3)}
