"""`PodEvictions`: pods are evicted, as when their machine is drained, and what the job there does with its grace.

A drained machine itself stays as it is: to cordon or to taint it would change where pods of others go. Only the pod
that takes the place of the evicted one is kept off it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chaoskit.environments.agents.agent_line import AgentGone, AgentLine
from chaoskit.environments.environment import Ended, EnvironmentEvent
from chaoskit.environments.kubernetes.controlled_pods import ControlledPods
from chaoskit.environments.kubernetes.pod_faults import PodFaults
from chaoskit.environments.kubernetes.pods import PodNode

#: Seconds between two looks at a pod that ends.
_LOOK = 0.1
#: Seconds past its grace for a pod to be gone.
_DYING = 60.0
#: How early a kubelet may seem to end a grace: it counts from before the job got its signal.
_EARLY = 1.0
#: What the API server writes on a pod that it evicts.
_CONDITION = "DisruptionTarget"
#: Why a node of a job template cannot be drained.
TEMPLATE_STAYS = (
    "the controller of a job template makes the pods, and nothing can keep one of them off a machine: leave "
    "--job-template out, or use evict_node"
)


@dataclass
class Eviction:
    """One eviction. `since` is when the job got SIGTERM, and `gone` when the agent was, by our clock; `ended` is after
    how many seconds the job had ended by itself. `condition` is what the cluster says of it on the pod. The node that
    takes its place is `by`; if it is `drained`, that must run on another machine."""

    pod: PodNode
    replaced: bool
    drained: bool
    grace: float
    begun: float
    by: str | None = None
    look_at: float = 0.0
    since: float | None = None
    notice: Mapping[str, Any] = field(default_factory=dict)
    gone: float | None = None
    is_over: bool = False
    condition: Mapping[str, Any] | None = None

    @property
    def is_overdue(self) -> bool:
        return time.monotonic() > self.begun + self.grace + _DYING

    def evidence(self) -> dict[str, Any]:
        """See `CanEvict.evicted`."""
        assert self.gone is not None
        if self.since is None or not self.notice["passed_on"]:
            raise LookupError(f"the pod {self.pod.pod} is gone, and no process of the job got SIGTERM before")
        ended = self.notice["ended"]
        killed = round(self.gone - self.since, 3) if ended is None else None
        return {
            "gone": self.pod.uid,
            "since": self.since,
            "grace": self.grace,
            "sigterm": {name: self.notice[name] for name in ("passed_on", "delivered")},
            "ended": None if ended is None else round(ended, 3),
            "killed": killed,
            "grace_used_up": killed is not None and killed >= self.grace - _EARLY,
            "claimed": [{"eviction": "accepted", "condition": self.condition}],
        }


class PodEvictions(PodFaults):
    """Fulfils `CanEvict` and `CanDrain`. The pod is asked to go through the API of evictions; its agent passes the
    kubelet's SIGTERM on to the job, and ends when the job has, or is killed with it."""

    #: By node, the newest eviction of it.
    _evictions: dict[str, Eviction]

    def evict_node(self, node: str, *, replaced: bool) -> Mapping[str, Any]:
        """See `CanEvict`."""
        return self._evict(node, replaced=replaced)

    def drain_node(self, node: str) -> Mapping[str, Any]:
        """See `CanDrain`."""
        if isinstance(self.pods, ControlledPods):
            raise LookupError(TEMPLATE_STAYS)
        return self._evict(node, replaced=True, drained=True)

    def _evict(self, node: str, *, replaced: bool, drained: bool = False) -> Mapping[str, Any]:
        launch = self.job.must_run(node)
        found, begun = self.pods.now[node], time.monotonic()
        manifest = self.pods.manifest_of(found)
        if manifest is None:
            raise LookupError(f"the pod {found.pod} of {node} is not there any more")
        self.pods.evict(node)
        launch.leave_to_others(node, cause="evicted")
        grace = float(manifest["spec"]["terminationGracePeriodSeconds"])
        self._evictions[node] = Eviction(found, replaced, drained, grace, begun)
        return {"pod": found.pod, "uid": found.uid, "machine": found.machine}

    def evicted(self, node: str) -> Mapping[str, Any] | None:
        """See `CanEvict`."""
        eviction = self._evictions[node]
        self._look(node, eviction)
        if eviction.is_over:
            return eviction.evidence()
        if eviction.is_overdue:
            raise LookupError(f"the pod {eviction.pod.pod} is still there {_DYING:g} s after the end of its grace")
        return None

    def drained(self, node: str) -> Mapping[str, Any] | None:
        """See `CanDrain`."""
        evidence, eviction = self.evicted(node), self._evictions[node]
        if evidence is None:
            return None
        if eviction.by is None:
            raise LookupError(f"no fresh node takes the place of {node}: it was lost to something else")
        fresh = self.pods.now.get(eviction.by)
        if fresh is None:
            return None
        about = {"node": fresh.name, "pod": fresh.pod, "uid": fresh.uid, "machine": fresh.machine}
        if fresh.machine == eviction.pod.machine:
            raise LookupError(f"the cluster has put {fresh.name} on {fresh.machine} again, which was drained")
        return {**evidence, "machine": eviction.pod.machine, "fresh": about}

    def launch(self, index: int, command: Sequence[str]) -> str:
        """See `AgentJob.launch`. A pod that somebody else has asked to end is waited for: nothing is launched there."""
        for node in self.job.roster.up:
            agent = self.pods.now[node].agent
            deadline = time.monotonic() + _DYING
            while _has_notice(agent) and time.monotonic() < deadline:
                time.sleep(_LOOK)
        return super().launch(index, command)

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """See `Environment`. A launch that ends with a node that is evicted has ended once its pod is gone."""
        happened = super().wait(timeout)
        for node, eviction in self._evictions.items():
            self._look(node, eviction)
            while any(isinstance(event, Ended) for event in happened) and not (eviction.is_over or eviction.is_overdue):
                time.sleep(_LOOK)
                self._look(node, eviction)
        return happened

    def _look(self, node: str, eviction: Eviction) -> None:
        """Ask the agent, and the cluster, what has become of the pod."""
        now = time.monotonic()
        if eviction.is_over or now < eviction.look_at:
            return
        eviction.look_at = now + _LOOK
        agent = eviction.pod.agent
        if not agent.is_gone:
            with suppress(AgentGone):
                eviction.pod.notice = agent.ask("end_notice")
        if (notice := eviction.pod.notice) is not None and notice is not eviction.notice:
            eviction.notice = notice
            eviction.since = eviction.since or time.monotonic() - float(notice["seconds"])
        manifest = self.pods.manifest_of(eviction.pod)
        conditions = ((manifest or {}).get("status") or {}).get("conditions") or ()
        told = [one for one in conditions if one["type"] == _CONDITION]
        if told:
            eviction.condition = {name: told[0].get(name) for name in ("type", "status", "reason", "message")}
        if eviction.gone is None and agent.is_gone:
            eviction.gone = time.monotonic()
            if self.pods.now.get(node) is eviction.pod and node in self.job.roster.up:
                eviction.by = self.job.lose(node, replaced=eviction.replaced)
                if eviction.drained and eviction.by is not None:
                    self.pods.keep_off(eviction.by, eviction.pod.machine)
        eviction.is_over = eviction.gone is not None and manifest is None


def _has_notice(agent: AgentLine) -> bool:
    """Whether the agent is there, and was asked to end."""
    try:
        return not agent.is_gone and agent.ask("end_notice") is not None
    except AgentGone:
        return False
