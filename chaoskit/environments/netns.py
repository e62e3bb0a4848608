"""`NetnsEnvironment`: the nodes of a job are virtual hosts of this machine, each with a network of its own.

Every node runs the job's command in namespaces of its own; torchrun is told by its environment variables (PET_*) where
the others are, so that a flag on the user's command line still wins. All that a local environment can do to ranks and
files can be done here too, since both are this machine's.
"""

from __future__ import annotations

import math
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from chaoskit.capabilities import Process, Way
from chaoskit.environments import processes, ranks
from chaoskit.environments.environment import Happening, Place, Told
from chaoskit.environments.gang import Gang
from chaoskit.environments.hosts import MOST_HOSTS, NETWORK
from chaoskit.environments.local import LocalEnvironment
from chaoskit.environments.switchboard import Switchboard, trial
from chaoskit.errors import TooFewNodes, UsageError
from chaoskit.launch.launcher import Launch, Launcher
from chaoskit.supervisor import Supervisor

#: The port of the rendezvous; torchrun's own default.
PORT = 29400
_PASSING = "127.0.0.1 localhost\n::1 localhost\n"


@dataclass(frozen=True)
class Away:
    """A node that was lost: when the scheduler acts on that, and who then comes in its place: itself, a spare, or None
    for nobody."""

    at: float
    by: str | None


class NetnsEnvironment(LocalEnvironment):
    """Runs a job on virtual hosts; fulfils in addition `CanPartition`, `CanDegrade`, `CanHideNames`, `CanLoseNodes`."""

    name = "netns"
    has_nodes = True
    # The storage of a job is mounted once, and each of its hosts has mounts of its own.
    fail_storage = mend_storage = storage_met = None  # type: ignore[assignment]

    def __init__(self, place: Place, launcher: Launcher | None = None) -> None:
        super().__init__(place, launcher)
        if place.nodes.most > MOST_HOSTS:
            raise UsageError(
                f"nnodes: {place.nodes.most} virtual hosts are more than the {MOST_HOSTS} that can be had"
            )
        self._board: Switchboard | None = None
        self._numbers: dict[str, int] = {}
        self._made: dict[str, Mapping[str, Any]] = {}
        self._up: list[str] = []
        self._away: list[Away] = []
        self._hidden: set[str] = set()
        self._lost: dict[str, bool] = {}
        self._told: list[Told] = []
        self._command: Sequence[str] = ()
        self._meeting = ""

    @staticmethod
    def available() -> str | None:
        """None where it can be used, else why not and what would help."""
        return LocalEnvironment.available() or trial()

    def __enter__(self) -> NetnsEnvironment:
        super().__enter__()
        try:
            self._board = Switchboard(self.place.run_id)
            self._undo.callback(self._board.close)
            for _ in range(self.place.nodes.most):
                self._up.append(self._make(f"node{len(self._numbers)}"))
        except BaseException:
            self._undo.close()
            raise
        # The job goes before its hosts do.
        self._undo.callback(self._close_launch)
        return self

    # Launches.

    def launch(self, index: int, command: Sequence[str]) -> str:
        """Start the command on every node as launch number `index`, and say how; raises UsageError if it cannot be
        started, TooFewNodes if there are fewer than the job needs and none will come."""
        self._close_launch()
        self._index, self._command = index, command
        for away in self._away:  # a scheduler starts a job once it has the nodes
            time.sleep(max(0.0, away.at - time.monotonic()))
            self._bring_back(away)
        self._away.clear()
        if len(self._up) < self.place.nodes.least:
            raise TooFewNodes(f"the job needs {self.place.nodes.least} nodes, and {len(self._up)} are left")
        self._meeting = self._up[0]
        gang = Gang(self._up[: self.place.nodes.most], start=self._start_agent, tell=self._tell)
        self._launch, self._told_end = gang, False
        return self._how(gang)

    def _start_agent(self, node: str) -> Launch:
        order = self._order(self._command)
        own = {**order.env, **self._environ_of(node)}
        return self._starter.start(replace(order, env=own, host=self._made[node]["host"]))

    def _environ_of(self, node: str) -> dict[str, str]:
        """What is a node's own; what the user has set stays."""
        nodes = self.place.nodes
        logs = self._run_dir / "logs" / "ranks" / f"launch-{self._index}" / node
        own = {
            "PET_NNODES": str(nodes),
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"{self._meeting}:{PORT}",
            "PET_RDZV_ID": self.place.run_id,
            "PET_LOG_DIR": str(logs),
            "TMPDIR": str(self._scratch(node)),
            **({"PET_RDZV_CONF": nodes.rdzv_conf} if nodes.rdzv_conf else {}),
        }
        given = {name: self.place.env[name] for name in own if name in self.place.env}
        elastic = {"CHAOSKIT_ELASTIC": "1"} if nodes.elastic else {}
        return {**own, **given, **elastic, "CHAOSKIT_NODE": node}

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """End every process of the current launch at once; returns what had to be ended."""
        self._away.clear()
        return super().stop()

    def _news(self) -> list[Happening]:
        gang = self._gang
        if gang is not None and not gang.is_failing and gang.agents:
            while self._away and self._away[0].at <= time.monotonic() and not gang.is_failing:
                if self.place.nodes.restarts_job:
                    gang.fail()
                elif (back := self._bring_back(self._away.pop(0))) is not None:
                    gang.join(back)
        happened = super()._news()
        told, self._told = self._told, []
        return [*told, *happened]

    def _patience(self) -> float:
        gang = self._gang
        if gang is None:
            return math.inf
        due = self._away[0].at - time.monotonic() if self._away and not gang.is_failing else math.inf
        return max(0.0, min(gang.patience, due))

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        self._told.append(Told(kind, {"launch": self._index, **data}))

    @property
    def _gang(self) -> Gang | None:
        return self._launch if isinstance(self._launch, Gang) and not self._told_end else None

    # Hosts.

    @property
    def board(self) -> Switchboard:
        """The line to the holder."""
        assert self._board is not None, "the environment has not been entered"
        return self._board

    def _make(self, node: str) -> str:
        """Bring up a host of that name, in place of an older one."""
        if node in self._made:
            self.board.ask("remove", name=node)
        number = self._numbers.setdefault(node, len(self._numbers))
        if number >= MOST_HOSTS:
            raise UsageError(f"{MOST_HOSTS} virtual hosts have been used up")
        shutil.rmtree(self._scratch(node), ignore_errors=True)
        self._scratch(node).mkdir(mode=0o700)
        self._write_names()
        self._made[node] = self.board.ask("add", name=node, number=number, names=str(self._names(node)))
        return node

    def _bring_back(self, away: Away) -> str | None:
        """The node that comes in place of one that was lost, if one does."""
        if away.by is not None:
            self._up.append(self._make(away.by))
            self._up.sort(key=self._numbers.__getitem__)
        return away.by

    def _scratch(self, node: str) -> Path:
        """The directory of temporary files that is this node's own."""
        assert self._tmp is not None
        return self._tmp / node

    def _names(self, node: str) -> Path:
        assert self._tmp is not None
        return self._tmp / f"hosts-{node}"

    def _write_names(self) -> None:
        """The `/etc/hosts` of every node. Written in place: the hosts have these very files mounted."""
        lines = {node: f"{NETWORK}.{number + 1} {node}\n" for node, number in self._numbers.items()}
        for node in self._numbers:
            known = [lines[node]] if node in self._hidden else lines.values()
            self._names(node).write_text(_PASSING + "".join(known))

    # What can be done to the network: see `CanPartition`, `CanDegrade` and `CanHideNames`.

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        return tuple(self._up)

    def cut(self, ways: Sequence[Way], *, how: Literal["drop", "reset"] = "drop", percent: float = 100.0) -> int:
        """See `CanPartition`."""
        made: int = self.board.ask("cut", ways=list(ways), how=how, percent=percent)
        return made

    def mend(self, cut: int) -> None:
        """See `CanPartition`."""
        self.board.ask("mend", cut=cut)

    def lost(self, cut: int) -> Mapping[str, int]:
        """See `CanPartition`."""
        counted: Mapping[str, int] = self.board.ask("lost", cut=cut)
        return counted

    def reaches(self, source: str, target: str) -> bool:
        """See `CanPartition`."""
        return bool(self.board.ask("reaches", source=source, target=target))

    def degrade(
        self,
        nodes: Sequence[str],
        *,
        delay: float = 0.0,
        jitter: float = 0.0,
        rate: float | None = None,
        corrupt: float = 0.0,
    ) -> int:
        """See `CanDegrade`."""
        quality = {"delay": delay, "jitter": jitter, "rate": rate, "corrupt": corrupt}
        made: int = self.board.ask("degrade", nodes=list(nodes), **quality)
        return made

    def restore(self, degraded: int) -> None:
        """See `CanDegrade`."""
        self.board.ask("restore", degraded=degraded)

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """See `CanDegrade`."""
        counts: Mapping[str, float] = self.board.ask("degraded", degraded=degraded)
        return counts

    def hide_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        self._hidden |= set(nodes)
        self._write_names()

    def show_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        self._hidden -= set(nodes)
        self._write_names()

    def resolves(self, node: str, name: str) -> bool:
        """See `CanHideNames`."""
        return bool(self.board.ask("resolves", node=node, name=name))

    # What can be done to nodes: see `CanLoseNodes`.

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        """See `CanLoseNodes`."""
        gang = self._must_run(node)
        self.board.ask("unplug", name=node)
        ended = gang.end(node, cause="replaced" if replaced else "lost")
        self._up.remove(node)
        self._lost[node] = not any(self.reaches(node, other) for other in self._up[:1])
        policy = Supervisor(lost="spare") if replaced else self.place.nodes.supervisor
        spare = self._next_name() if policy.lost == "spare" else None
        by = node if policy.lost == "returns" else spare
        self._away.append(Away(time.monotonic() + policy.after, by))
        self._away.sort(key=lambda away: away.at)
        return {"ended": [each["pid"] for each in ended]}

    def is_lost(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        # Of one that is back it was asked while it was away.
        return self._lost.get(node, False) and (node in self._up or not self._processes_of(node))

    def freeze_node(self, node: str) -> Mapping[str, Any]:
        """See `CanLoseNodes`."""
        self._must_run(node)
        stopped: list[Process] = []
        # What was just being started is there at the next look.
        while new := [process for process in self._processes_of(node) if process not in stopped]:
            stopped += [process for process in new if processes.send(process, signal.SIGSTOP)]
        return {"pids": [p.pid for p in stopped]}

    def is_frozen(self, node: str) -> bool:
        """See `CanLoseNodes`."""
        own = self._processes_of(node)
        return bool(own) and all(processes.state(process) != "running" for process in own)

    def thaw_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        for process in self._processes_of(node):
            processes.send(process, signal.SIGCONT)

    def add_node(self) -> str:
        """See `CanLoseNodes`."""
        gang = self._gang
        if gang is None or gang.is_failing:
            raise LookupError("no launch is running that a node could join")
        if len(self._up) >= self.place.nodes.most:
            raise LookupError(f"the job runs on {len(self._up)} nodes, as many as it may")
        # Of the nodes that are not up, one may still be leaving, and another be on its way back.
        taken = {*self._up, *gang.agents, *(away.by for away in self._away)}
        free = [node for node in self._numbers if node not in taken]
        node = self._make(free[0] if free else self._next_name())
        self._up.append(node)
        gang.join(node)
        return node

    def remove_node(self, node: str) -> None:
        """See `CanLoseNodes`."""
        self._must_run(node).ask_to_end(node, cause="removed")
        self._up.remove(node)

    def ranks_of(self, node: str) -> tuple[int, ...]:
        """See `CanLoseNodes`."""
        known = ranks.seen(self._run_dir, launch=self._index).values()
        return tuple(sorted(r.rank for r in known if r.node == node and processes.state(r.process) != "gone"))

    def launcher_processes(self) -> list[Process]:
        """See `CanSignal`."""
        gang = self._gang
        if gang is None or not gang.agents:
            raise LookupError("the job's command is not running")
        return list(gang.agents.values())

    def _must_run(self, node: str) -> Gang:
        gang = self._gang
        if gang is None or node not in gang.agents:
            raise LookupError(f"{node} is not up, or nothing of the job runs there")
        return gang

    def _processes_of(self, node: str) -> list[Process]:
        return processes.marked(self.place.run_id, node=node)

    def _next_name(self) -> str:
        taken = {*self._numbers, *(away.by for away in self._away)}
        return next(name for number in range(MOST_HOSTS + 1) if (name := f"node{number}") not in taken)
