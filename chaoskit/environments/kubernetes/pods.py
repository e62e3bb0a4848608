"""`PodNodes`: the nodes of one run as pods: start them, find their agents, lose them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.agents.agent_line import AgentDoor, AgentGone, AgentLine
from chaoskit.environments.agents.agent_nodes import AgentNode, AgentNodes
from chaoskit.environments.kubernetes import pod_trouble
from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.kept_off import kept_off
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.pod_manifest import CONTAINER, NODE_ROLE
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.errors import ChaoskitError

#: Seconds for a pod to be scheduled, to have its image, and to start.
UP_LIMIT = 300.0
#: Seconds between two looks at a pod that does not run yet.
_LOOK = 1.0
#: Seconds for the cluster to know the address of a pod whose container runs.
_ADDRESS = 30.0
#: Seconds for a pod that was deleted to be gone, and its processes with it.
_DYING = 60.0
#: How many lines that a container wrote last are shown to people.
_LAST_LINES = 5


@dataclass(kw_only=True)
class PodNode(AgentNode):
    """One node: also its pod, by name and uid, and the machine of the cluster that it runs on. `booted` is when that
    machine was started, by the clock of its pod. `notice` is what its agent said last of a SIGTERM: see `EndNotice`."""

    pod: str
    uid: str
    machine: str
    booted: float
    notice: Mapping[str, Any] | None = None


class PodNodes(AgentNodes[PodNode]):
    """The pods of the nodes in `roster`, whose names are below `service`. `manifest` makes that of a node, given the
    name of its pod. Fulfils `ChaosPods`."""

    def __init__(
        self,
        connection: ClusterConnection,
        objects: RunObjects,
        *,
        door: AgentDoor,
        roster: NodeRoster,
        service: str,
        manifest: Callable[[str, str], Mapping[str, Any]],
        limit: float = UP_LIMIT,
    ) -> None:
        super().__init__(door)
        self.roster = roster
        self.connection, self.objects = connection, objects
        self._service, self._manifest, self._limit = service, manifest, limit
        self._made = 0
        #: By node, the machine on which its next pod must not run.
        self._drained: dict[str, str] = {}
        #: See `ChaosPods`.
        self.container = CONTAINER

    def make(self, node: str | None = None) -> str:
        """Start a pod for the node, in place of an older one; returns the node's name. Raises UsageError if there can
        be no more nodes, ChaoskitError if the pod does not start."""
        node = node if node is not None else self.roster.next_name()
        number = self.roster.number(node)
        if node in self.now:
            self._forget(self.now.pop(node))
        self._made += 1
        pod = f"chaoskit-{self.objects.identity.run}-{node}-{self._made}"
        manifest, machine = self._manifest(node, pod), self._drained.pop(node, None)
        if machine is not None:
            manifest = kept_off(manifest, machine)
        made = self.objects.create(PODS, manifest, role=NODE_ROLE, node=number)
        waits = _Waiting(self, node, pod)
        line = self._door.take({"agent": pod}, limit=self._limit, alive=waits.look, why=lambda: waits.why)
        self.now[node] = self._node_behind(line, node, pod, uid=str(made["metadata"]["uid"]))
        self.roster.admit(node)
        return node

    def _node_behind(self, line: socket.socket, node: str, pod: str, *, uid: str) -> PodNode:
        """The node whose agent is at the other end. Raises AgentGone, ChaoskitError."""
        found = self._with_address(pod, node)
        agent = AgentLine(
            line,
            gone=f"the pod {pod} of {node} has ended, or does not answer: if you did not end it, see its events "
            f"(kubectl describe pod) and run this again",
        )
        return PodNode(
            name=node,
            mark=uid,
            agent=agent,
            address=str(found["status"]["podIP"]),
            pod=pod,
            uid=uid,
            machine=str((found.get("spec") or {}).get("nodeName") or ""),
            booted=float(agent.ask("booted")),
        )

    def nodes(self) -> tuple[str, ...]:
        """See `ChaosPods`."""
        return tuple(self.roster.up)

    def selector(self, node: str) -> RunSelector:
        """See `ChaosPods`."""
        return RunSelector(self.objects.identity, NODE_ROLE, self.roster.number(node))

    def address(self, node: str) -> str:
        """See `ChaosPods`."""
        found = self.now.get(node)
        if found is None or not found.address:
            raise LookupError(f"{node} has no pod with an address")
        return found.address

    def names(self, node: str) -> tuple[str, ...]:
        """See `ChaosPods`."""
        return (f"{node}.{self._service}",)

    def ask(self, node: str, request: str, **given: Any) -> Any:
        """See `ChaosPods`."""
        if node not in self.now:
            raise AgentGone(f"{node} has no pod")
        return self.now[node].agent.ask(request, **given)

    def must_live(self, node: str, pod: str) -> str:
        """Raises ChaoskitError if the pod will not run any more; returns why it does not run yet, "" if unknown."""
        found = self._pod(pod)
        if found is None:
            raise ChaoskitError(f"the pod {pod} of {node} was removed by somebody else before it ran: run this again")
        if why := pod_trouble.hopeless(found):
            raise ChaoskitError(f"the pod {pod} of {node} cannot run: {why}")
        if how := pod_trouble.ended(found):
            said = " ".join(self.last_words(pod).split())
            raise ChaoskitError(f"the pod {pod} of {node} has ended at once, {how}" + (f": {said}" if said else ""))
        return pod_trouble.waits_for(found)

    def last_words(self, pod: str) -> str:
        """What the container of a pod has written last; "" if that cannot be had."""
        with suppress(ClusterError):  # the reason of the failure is told without it
            return self.connection.log(
                ApiTarget(PODS, self.objects.identity.namespace, pod), lines=_LAST_LINES
            ).strip()
        return ""

    def kill(self, node: str) -> Mapping[str, Any]:
        """Delete the pod of a node without grace, and wait until its processes are gone; returns evidence. Raises
        ChaoskitError if they do not go."""
        found = self.now[node]
        self.objects.remove(PODS, role=NODE_ROLE, uid=found.uid)
        deadline = time.monotonic() + _DYING
        while self.exists(node) or not found.agent.is_gone:
            if time.monotonic() > deadline:
                raise ChaoskitError(f"the pod {found.pod} of {node} was deleted, and does not end within {_DYING:g} s")
            time.sleep(0.1)
        found.is_frozen = False
        return {"pod": found.pod, "uid": found.uid, "machine": found.machine, "deleted": "without grace"}

    def exists(self, node: str) -> bool:
        """Whether the pod that the node has or had last is there, as the cluster says: its very uid."""
        found = self.now.get(node)
        return found is not None and self.manifest_of(found) is not None

    def is_over(self, pod: str) -> bool:
        """Whether no process of the job runs in the pod of this name any more, as the cluster says. Raises
        ClusterError."""
        found = self._pod(pod)
        return found is None or pod_trouble.is_over(found, self.container)

    def manifest_of(self, node: PodNode) -> Mapping[str, Any] | None:
        """The very pod of a node as the cluster has it, also of one that was replaced; None if it is gone."""
        found = self._pod(node.pod)
        return found if found is not None and found["metadata"]["uid"] == node.uid else None

    def evict(self, node: str) -> None:
        """Ask for the eviction of the pod of a node. Raises LookupError if it is not there, or if a
        PodDisruptionBudget does not allow it within a minute."""
        found = self.now[node]
        try:
            is_there = self.objects.evict(role=NODE_ROLE, uid=found.uid)
        except ClusterError as error:
            if error.status != 429:
                raise
            raise LookupError(str(error)) from error
        if not is_there:
            raise LookupError(f"the pod {found.pod} of {node} is not there any more")

    def keep_off(self, node: str, machine: str) -> None:
        """Have the next pod of a node run on another machine than this one."""
        self._drained[node] = machine

    def thaw(self, node: str) -> None:
        """Nothing is ever in the way of an agent: the processes of the job are stopped one by one."""

    def end_of(self, node: str) -> str:
        """See `ChaosPods`."""
        found = self._pod(self.now[node].pod) if node in self.now else None
        return (pod_trouble.ended(found) or "") if found is not None else ""

    def close(self) -> None:
        """Let go of the agents: each ends with its pod."""
        for node in self.now.values():
            node.agent.close()

    def _forget(self, node: PodNode) -> None:
        node.agent.close()
        self.objects.remove(PODS, role=NODE_ROLE, uid=node.uid)

    def _with_address(self, pod: str, node: str) -> Mapping[str, Any]:
        """The pod, once the cluster knows its address: a kubelet tells that after the container has started. Raises
        AgentGone for one that is not there any more, ChaoskitError."""
        deadline = time.monotonic() + _ADDRESS
        while time.monotonic() < deadline:
            found = self._pod(pod)
            if found is None:
                raise AgentGone(f"the pod {pod} of {node} was removed by somebody else: run this again")
            if (found.get("status") or {}).get("podIP"):
                return found
            time.sleep(0.1)
        raise ChaoskitError(f"the cluster does not tell the address of the pod {pod} of {node}: see its events")

    def _pod(self, name: str) -> Mapping[str, Any] | None:
        """A pod of this run as the cluster has it; None if there is none."""
        try:
            return self.connection.get(ApiTarget(PODS, self.objects.identity.namespace, name))
        except ClusterError as error:
            if error.status != 404:
                raise
            return None


class _Waiting:
    """Looks at a pod from time to time until its agent has come. `why` is the reason why it does not run yet."""

    def __init__(self, pods: PodNodes, node: str, pod: str) -> None:
        self._pods, self._node, self._pod = pods, node, pod
        self._next = 0.0
        self.why = ""

    def look(self) -> None:
        """Raises ChaoskitError if the pod cannot run."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LOOK
            self.why = self._pods.must_live(self._node, self._pod)
