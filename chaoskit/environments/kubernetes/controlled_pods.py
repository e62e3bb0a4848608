"""`ControlledPods`: the pods of a run that a controller makes, from the job template of the team.

chaoskit makes the job. Its controller makes the pods, replaces those that fail, and says when it is over. The agent of
each pod connects by itself: the pods are followed, and never made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from chaoskit.environments.agents.agent_line import AgentDoor, AgentGone
from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.pod_manifest import NODE_ROLE
from chaoskit.environments.kubernetes.pods import UP_LIMIT, PodNodes
from chaoskit.environments.kubernetes.removal import suspend_job
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.kubernetes.team_jobs.team_job import ControllerReport, TeamJob, condition
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.errors import ChaoskitError

_LOOK = 0.2
#: Between two looks at the cluster while a pod is awaited, in seconds.
_ASK_EVERY = 1.0
#: Seconds for a pod to be gone whose container has ended.
_ENDING = 60.0
#: Seconds that the controller may wait before it makes a pod again that has failed several times.
_BACK_OFF = 600.0


class ControlledPods(PodNodes):
    """The pods of a `job`: number 1 is `node1`. Its service has the same name, and the command runs in `container`.
    `before_end` is called before a pod is let go. They are closed once the job is gone: its controller would replace
    pods whose agents end before that."""

    def __init__(
        self,
        connection: ClusterConnection,
        objects: RunObjects,
        *,
        door: AgentDoor,
        roster: NodeRoster,
        job: TeamJob,
        container: str,
        before_end: Callable[[], object],
        limit: float = UP_LIMIT + _BACK_OFF,
    ) -> None:
        self._job, self._name = job, str(job.manifest["metadata"]["name"])
        super().__init__(
            connection, objects, door=door, roster=roster, service=self._name, manifest=_never, limit=limit
        )
        self.container = container
        self._before_end = before_end
        self._nodes = [f"node{number}" for number in range(job.nodes)]
        self._why = ""
        #: The name and the uid of each pod that was there when the job was suspended last.
        self._suspended: dict[str, str] = {}
        #: The uids of all pods whose agent has come.
        self._known: set[str] = set()
        #: The exit code with which the newest pod of a number was let go.
        self._codes: dict[int, int] = {}
        for node in self._nodes:
            roster.number(node)

    def make(self, node: str | None = None) -> str:
        """Wait for the pod that the controller makes for this node, or for the next one; returns the node. Raises
        SupervisorGaveUp, ChaoskitError."""
        if node is None:
            node = f"node{self._made}"
            self._made += 1
        self.gather([node])
        return node

    def selector(self, node: str) -> RunSelector:
        """See `ChaosPods`: the pods have the labels of the controller, and none of ours, with their number."""
        return self._job.selector(self.objects.identity, NODE_ROLE, self.roster.number(node))

    def names(self, node: str) -> tuple[str, ...]:
        """See `ChaosPods`."""
        return (self._job.address(self.roster.number(node), job=self._name, service=self._name),)

    def gather(self, nodes: Collection[str]) -> None:
        """Wait until the agents of these nodes are there, as far as the controller wants their pods. Raises
        SupervisorGaveUp if it starts nothing again, ChaoskitError if a pod cannot run, or does not come in time."""
        begun, due = time.monotonic(), 0.0
        while True:
            self.adopt()
            missing = set(nodes).intersection(self.absent)
            if missing and time.monotonic() >= due:
                missing.intersection_update(self.awaited())
                due = time.monotonic() + _ASK_EVERY
            if not missing:
                return
            if time.monotonic() - begun > self._limit:
                raise ChaoskitError(
                    f"the {self._job.api.kind} {self._name} has no agent of {min(missing)} within {self._limit:g} s: "
                    f"{self._why or 'its controller has made no pod'}"
                )
            time.sleep(_LOOK)

    @property
    def absent(self) -> list[str]:
        """The nodes of which no agent is there now."""
        there = [node.name for node in self.now.values() if not node.agent.is_gone]
        return [node for node in self._nodes if node not in there]

    def awaited(self) -> list[str]:
        """The absent nodes whose pods the controller has yet to bring up: it wants none of a pod that has ended well.
        Raises SupervisorGaveUp if it starts nothing again, ChaoskitError if a pod cannot run."""
        found = self.connection.get(self._target)
        made = [each for kind in self._job.makes for each in self.objects.listed(kind, role=NODE_ROLE).manifests]
        report = ControllerReport(job=found, made=made, container=self.container, codes=self._codes)
        if (over := self._job.gave_up(report)) is not None:
            raise over
        if not self.absent or condition(found, self._job.complete) is not None:
            return []
        pods = self.objects.listed(PODS, role=NODE_ROLE).manifests
        done = {f"node{self._job.number(pod)}" for pod in pods if _has_ended_well(pod)}
        awaited = [node for node in self.absent if node not in done]
        self._why = self._look_at(pods, awaited) if awaited else ""
        return awaited

    def adopt(self) -> list[str]:
        """Take in the agents that have come since the last call; returns their nodes."""
        fresh = []
        for hello, line in self._door.take_all("agent"):
            pod = self._pod(str(hello["agent"]))
            if pod is None or not RunSelector(self.objects.identity, NODE_ROLE).matches(pod):
                line.close()  # it has gone again, or somebody has put our token to use elsewhere
                continue
            node = f"node{self._job.number(pod)}"
            name, uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
            try:
                found = self._node_behind(line, node, name, uid=uid)
            except AgentGone:
                line.close()
                continue
            if node in self.now:
                self.now[node].agent.close()
            self._known.add(uid)
            self.now[node] = found
            if node not in self.roster.up:
                self.roster.admit(node)
            fresh.append(node)
        return fresh

    def finish(self, node: str, code: int) -> None:
        """Let the container of a node end as its command has, with this code, negative for a signal: the controller
        decides what follows."""
        found = self.now[node]
        code = code if code >= 0 else 128 - code
        self._codes[self.roster.number(node)] = code
        with suppress(AgentGone):
            self._before_end()
            found.notice = found.agent.ask("finish", code=code)
        found.agent.close()

    def command(self, node: str) -> list[str]:
        """The command of a pod, as the cluster has filled it in. Raises AgentGone."""
        words: list[str] = self.now[node].agent.ask("command")
        return words

    def suspend(self) -> Mapping[str, Any]:
        """Suspend the job; returns evidence. Raises ClusterError."""
        self._suspended = {node.pod: node.uid for node in self.now.values() if not node.agent.is_gone}
        self._patch(suspended=True)
        return {"job": self._name, "nodes": dict(self._suspended)}

    def is_suspended(self) -> bool:
        """Whether each pod that was there then is gone, by its uid, as the cluster says. Once all agents have ended,
        the pods are about to: that is waited for."""
        running = any(not node.agent.is_gone for node in self.now.values() if node.uid in self._suspended.values())
        deadline = time.monotonic() + (0.0 if running else _ENDING)
        while any((pod := self._pod(name)) and pod["metadata"]["uid"] == uid for name, uid in self._suspended.items()):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK)
        return True

    def resume(self) -> None:
        """Let the controller make pods again. Raises ClusterError."""
        self._patch(suspended=False)

    def _patch(self, *, suspended: bool) -> None:
        suspend_job(self.connection, self._target, self._job.suspension(suspended))

    @property
    def _target(self) -> ApiTarget:
        return ApiTarget(self._job.api, self.objects.identity.namespace, self._name)

    def _look_at(self, pods: Collection[Mapping[str, Any]], awaited: Collection[str]) -> str:
        """Why a pod does not run yet, "" if unknown. Raises ChaoskitError for one that will not."""
        why = ""
        for pod in pods:
            node, metadata = f"node{self._job.number(pod)}", pod["metadata"]
            if node in awaited and metadata["uid"] not in self._known and "deletionTimestamp" not in metadata:
                why = self.must_live(node, str(metadata["name"])) or why
        return why


def _has_ended_well(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded" and "deletionTimestamp" not in pod["metadata"]


def _never(node: str, pod: str) -> Mapping[str, Any]:
    raise AssertionError(f"{pod}: the controller makes the pods of {node}")
