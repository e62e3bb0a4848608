"""`PodStress`: processes of Chaos Mesh in pods, which use up the memory or the processors that a pod may use.

The kernel shares what a pod may use among all processes in it. So a pod without a limit cannot run short: Chaos Mesh
would take from whatever else runs on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chaoskit.environments.kubernetes.chaos import pod_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_pods import USUAL, ChaosFaults, ChaosLimits, ChaosPods
from chaoskit.environments.kubernetes.chaos.felt_processor import FeltProcessor
from chaoskit.errors import ChaoskitError

#: Bytes that are taken beyond the last one, so that somebody must die.
_MORE = 4 << 20
#: One process takes so many bytes in a few seconds.
_PER_WORKER = 4 << 30
#: Of the memory that the machine has, how much may be taken: the rest is for others.
_MOST_OF_MACHINE = 0.9
#: Processes that share a pod's processors with the job: each takes some of its memory.
MOST_WORKERS = 512
_NEVER = -1000
#: A process that the kernel has killed is gone after so many seconds at most.
_DYING = 2.0
_LOOK = 0.1
_KILLED = "OOMKilled"


@dataclass
class _Stress:
    """`before` is what the kernel had counted when it began, `last` what it counted last; `strangers` are the processes
    that Chaos Mesh has put into the pod, by pid, with their `oom_score_adj`. Once it is `over`, only what was `told`
    last is known."""

    node: str
    before: Mapping[str, Any]
    last: Mapping[str, Any]
    earlier: frozenset[str]
    strangers: dict[int, int] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    over: bool = False


@dataclass
class _FullMemory(_Stress):
    """`there` are the processes that the job had, `here` asks for those that it has."""

    there: tuple[int, ...] = ()
    here: Callable[[], Sequence[int]] = tuple


@dataclass
class _BusyProcessors(_Stress):
    """With so many `workers`, a thread of the job should get the share `aimed` of a processor."""

    felt: FeltProcessor | None = None
    workers: int = 0
    aimed: float = 1.0


class PodStress:
    """The stress of one run, numbered."""

    def __init__(self, pods: ChaosPods, *, limits: ChaosLimits = USUAL) -> None:
        self._pods, self._longest = pods, limits.longest
        self.faults = ChaosFaults(pods, limits)
        self._memory: dict[int, _FullMemory] = {}
        self._processors: dict[int, _BusyProcessors] = {}

    def take_memory(self, node: str, *, here: Callable[[], Sequence[int]], first: Sequence[int], leave: int) -> int:
        """Fill the pod of a node up to `leave` bytes below its limit; `here` gives the pids of the job in it, of which
        the kernel is to kill one of `first`. Returns a number. Raises LookupError if the pod has no limit, or if its
        machine has not as much; ClusterError."""
        now = self._pods.ask(node, "resources")
        if now["limit"] is None:
            raise LookupError(f"the pod of {node} has no limit of memory: {limit_remedy('memory')}")
        size = max(1 << 20, now["limit"] - now["used"] - leave + (0 if leave else _MORE))
        if size > now["available"] * _MOST_OF_MACHINE:
            raise LookupError(
                f"to fill the pod of {node} takes {size} bytes, and its machine has {now['available']} available: give "
                "the pods a smaller limit of memory"
            )
        known = _FullMemory(node, now, now, self._entered(node), there=tuple(here()), here=here)
        self._pods.ask(node, "kill_first", pids=list(first))
        workers = -(-size // _PER_WORKER)
        # It is never killed itself, so that each kill that the kernel counts is one of the job.
        spec = pod_specs.stress(
            aim=Aim(self._pods.selector(node)), memory_workers=workers, memory=size // workers, kill_score=_NEVER,
            containers=[self._pods.container], seconds=self._longest,
        )  # fmt: skip
        number = self.faults.begin("memory", {node: spec})
        self._memory[number] = known
        self.memory_taken(number)
        return number

    def memory_taken(self, number: int) -> Mapping[str, Any]:
        """See `CanLimitMemory.memory_limited`; `stressors` is how many processes of Chaos Mesh were seen in the pod. If
        one of these was killed, it does not count."""
        known = self._memory[number]
        if known.over:
            return known.told
        alive: set[int] = set()
        here: Sequence[int] | None = None
        # In this order: the kernel counts a kill before the process is gone, be it of the job or a stressor.
        with suppress(ChaoskitError):  # the pod has ended
            here = known.here()
        now = self._now(known)
        with suppress(ChaoskitError):
            alive = self._meet(known)
        kills = now["kills"] - known.before["kills"]
        kills -= sum(pid not in alive and score != _NEVER for pid, score in known.strangers.items())
        if here is None:
            # The kernel has killed the whole pod, as cgroups v2 may have it. Only the cluster knows why it has ended.
            ended = self._pods.end_of(known.node)
            kills = max(kills, int(_KILLED in ended))
            here = () if ended else known.there
        known.told = {
            "kills": max(0, kills),
            "gone": [pid for pid in known.there if pid not in here],
            "used": now["used"],
            "limit": now["limit"],
            "stressors": len(known.strangers),
        }
        return known.told

    def give_memory_back(self, number: int) -> None:
        """Ask Chaos Mesh to end it; the second time, wait until it has. An unknown number is no error. Raises
        ChaoskitError."""
        known = self._memory.get(number)
        if known is not None and not known.over:
            self._settle(number)
            known.over = True
            self.faults.begin_end(number)
        else:
            self.faults.end(number)

    def _settle(self, number: int) -> None:
        """Count for the last time. The kernel counts a kill before the process is gone, and that may be a stressor."""
        until = time.monotonic() + _DYING
        found = self.memory_taken(number)
        while found["kills"] > len(found["gone"]) and time.monotonic() < until:
            time.sleep(_LOOK)
            found = self.memory_taken(number)

    def take_processors(self, node: str, *, ranks: Callable[[], Sequence[int]], cpu: float) -> int:
        """Start as many busy processes in the pod of a node as leave about `cpu` processors to the job; `ranks` gives
        the pids of the ranks there. Returns a number. Raises LookupError if that is not possible; ClusterError."""
        now = self._pods.ask(node, "resources")
        limit = now["processors"]
        if limit is None:
            raise LookupError(f"the pod of {node} has no limit of processors: {limit_remedy('cpu')}")
        if cpu >= limit:
            raise LookupError(f"the pod of {node} has {limit:g} processors in any case: throttle it to less")
        felt = FeltProcessor(lambda pids: self._pods.ask(node, "processor_use", pids=list(pids)), ranks)
        if not felt.is_counted:
            raise LookupError(
                f"no rank runs on {node}, or its kernel does not count how long a thread waits (/proc/PID/schedstat)"
            )
        busy = max(len(ranks()), round(felt.wanted))
        workers = math.ceil(busy * (limit / cpu - 1))
        if workers > MOST_WORKERS:
            raise LookupError(
                f"to leave {cpu:g} of the {limit:g} processors of {node} takes {workers} busy processes, and "
                f"{MOST_WORKERS} are the most: leave it more, or give the pods a smaller limit"
            )
        known = _BusyProcessors(node, now, now, self._entered(node), felt=felt, workers=workers)
        known.aimed = limit / (busy + workers)
        spec = pod_specs.stress(
            aim=Aim(self._pods.selector(node)), cpu_workers=workers, containers=[self._pods.container],
            seconds=self._longest,
        )  # fmt: skip
        number = self.faults.begin("processor", {node: spec})
        self._processors[number] = known
        known.before = self._now(known)
        self._meet(known)
        felt.begin(known.strangers)
        self.processors_taken(number)
        return number

    def processors_taken(self, number: int) -> Mapping[str, Any]:
        """See `CanLimitProcessor.processor_limited`, of the whole pod, and `FeltProcessor.look`, of its ranks. On a
        busy machine a pod may never get as much as it may use: it is not throttled, and its ranks wait all the same."""
        known = self._processors[number]
        assert known.felt is not None
        if known.over:
            return known.told
        got: dict[str, Any] = {"felt": False}
        with suppress(ChaoskitError):  # the pod has ended
            self._meet(known)
            got = known.felt.look(known.strangers, aimed=known.aimed)
        now = self._now(known)
        counted = {name: round(now[name] - known.before[name], 3) for name in ("periods", "throttled", "seconds")}
        of_it = {"aimed": round(known.aimed, 3), "workers": known.workers, "stressors": len(known.strangers)}
        known.told = {**counted, **got, "before": known.felt.before, **of_it}
        return known.told

    def give_processors_back(self, number: int) -> None:
        """End it. An unknown number is no error. Raises ChaoskitError if Chaos Mesh does not."""
        known = self._processors.get(number)
        if known is not None and not known.over:
            self.processors_taken(number)
            known.over = True
        self.faults.end(number)

    def came_up(self, node: str) -> None:
        """A fresh pod takes the place of a node: it has all that it may use. Raises ChaoskitError."""
        for number, known in [*self._memory.items(), *self._processors.items()]:
            if known.node == node:
                known.over = True
                self.faults.end(number)

    def close(self) -> None:
        """Take everything back. Raises ChaoskitError if Chaos Mesh does not."""
        self.faults.close()

    def _entered(self, node: str) -> frozenset[str]:
        return frozenset(self._pods.ask(node, "entered"))

    def _meet(self, known: _Stress) -> set[int]:
        """Look for the processes that came with it; returns those that live."""
        found = {
            int(pid): score
            for pid, score in self._pods.ask(known.node, "entered").items()
            if pid not in known.earlier
        }
        known.strangers |= found
        return {*found}

    def _now(self, known: _Stress) -> Mapping[str, Any]:
        with suppress(ChaoskitError):  # a pod that has ended tells no more
            known.last = self._pods.ask(known.node, "resources")
        return known.last


def limit_remedy(resource: str) -> str:
    """How pods get a limit."""
    amount = {"cpu": "4", "memory": "16Gi"}[resource]
    return f'[tool.chaoskit.kubernetes] resources = {{limits = {{{resource} = "{amount}"}}}}'
