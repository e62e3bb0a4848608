"""`PodLimits`: a pod has too little memory or processor time left, because processes of Chaos Mesh use it up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from chaoskit.capabilities import LimitTarget
from chaoskit.environments.kubernetes.chaos.pod_faults import PodMeshFaults
from chaoskit.environments.kubernetes.chaos.refusals import without_target
from chaoskit.environments.kubernetes.pod_faults import PodFaults

_WHOLE = "Chaos Mesh uses up what a whole pod may use"


class PodLimits(PodFaults, PodMeshFaults):
    """Fulfils `CanLimitMemory` and `CanLimitProcessor` by processes that Chaos Mesh starts in the pods. The limit of a
    pod is fixed: these processes take what is not left of it."""

    def limit_memory(self, target: LimitTarget, *, leave: int) -> int:
        """See `CanLimitMemory`."""
        node = self.node_of_target(target, whole=_WHOLE)
        here = partial(self.pods.ask, node, "processes", run_id=self.job.run.spec.run_id)
        first = here() if target.rank is None else [self.rank_process(target.rank).pid]
        if not first:
            raise LookupError(f"nothing of the job runs on {node}")
        with without_target():
            return self.mesh.stress.take_memory(node, here=here, first=first, leave=leave)

    def lower_memory(self, limit: int) -> None:
        """See `CanLimitMemory`: what Chaos Mesh holds cannot be changed."""

    def memory_limited(self, limit: int) -> Mapping[str, Any]:
        """See `CanLimitMemory`."""
        return self.mesh.stress.memory_taken(limit)

    def lift_memory(self, limit: int) -> None:
        """See `CanLimitMemory`: asked for the first time, it is not waited for."""
        self.mesh.stress.give_memory_back(limit)

    def limit_processor(self, target: LimitTarget, *, cpu: float) -> int:
        """See `CanLimitProcessor`."""
        node = self.node_of_target(target, whole=_WHOLE)
        with without_target():
            return self.mesh.stress.take_processors(node, ranks=partial(self._rank_pids, node), cpu=cpu)

    def processor_limited(self, limit: int) -> Mapping[str, Any]:
        """See `CanLimitProcessor`."""
        return self.mesh.stress.processors_taken(limit)

    def lift_processor(self, limit: int) -> None:
        """See `CanLimitProcessor`."""
        self.mesh.stress.give_processors_back(limit)

    def _rank_pids(self, node: str) -> list[int]:
        pids = []
        for rank in self.ranks_of(node):
            try:
                pids.append(self.rank_process(rank).pid)
            except LookupError:  # it has ended meanwhile
                continue
        return pids
