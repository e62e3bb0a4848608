"""The scheduler: it binds pods to nodes, or tells in the sentences of the real one why it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.kubernetes_server.admission import quantity
from tests.kubernetes_server.claim_controller import CLAIMS, belongs_to, claim_of
from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.lifecycle import now
from tests.kubernetes_server.pod_status import ENDED, with_conditions

Json = dict[str, Any]
GATED = "Scheduling is blocked due to non-empty scheduling gates"


class Scheduler:
    """Binds each pod to the node with the fewest pods of those that have room for it.

    `unschedulable` is for tests: it gives why no node takes a pod, as in "Insufficient nvidia.com/gpu", or None.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.unschedulable: Callable[[Json], str | None] = lambda pod: None

    def look(self) -> None:
        """Bind every pod that is on no node and can be bound."""
        for pod in self._plane.all("pods"):
            if pod["spec"].get("nodeName"):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod)
            else:
                self._bind(pod)

    def _end(self, pod: Json) -> None:
        """End a pod that is deleted and on no node, as the garbage collector of pods does."""
        if pod.get("status", {}).get("phase") not in ENDED:
            self._plane.patch("pods", pod, {"status": {"phase": "Failed"}}, status=True)

    def _bind(self, pod: Json) -> None:
        if pod["spec"].get("schedulingGates"):
            self._refuse(pod, "SchedulingGated", GATED)
            return
        nodes = self._plane.all("nodes")
        reasons: Counter[str] = Counter()
        fitting = []
        for node in nodes:
            why = list(self._against(pod, node))
            reasons.update(why)
            if not why:
                fitting.append(node["metadata"]["name"])
        if why_none := self._why_no_claim(pod):
            reasons, fitting = Counter(), []
        else:
            why_none = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
        if not fitting:
            none = f"0/{len(nodes)} nodes are available"
            helps = "Preemption is not helpful for scheduling"
            helps = "No preemption victims found for incoming pod" if reasons else helps
            self._refuse(pod, "Unschedulable", f"{none}: {why_none}. preemption: {none}: {len(nodes)} {helps}.")
            return
        loads = Counter(one["spec"].get("nodeName") for one in self._pods())
        chosen = min(fitting, key=lambda name: (loads[name], name))
        time = now()
        conditions = with_conditions(_conditions(pod), {"PodScheduled": {"status": "True"}}, time=time)
        if self._plane.patch("pods", pod, {"spec": {"nodeName": chosen}}) is not None:
            self._plane.patch("pods", pod, {"status": {"conditions": conditions}}, status=True)
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            self._plane.event(pod, "Scheduled", f"Successfully assigned {name} to {chosen}")

    def _refuse(self, pod: Json, reason: str, message: str) -> None:
        """Say why a pod is not bound, unless that is said already."""
        had = next((one for one in _conditions(pod) if one["type"] == "PodScheduled"), {})
        if (had.get("reason"), had.get("message")) == (reason, message):
            return
        wanted: dict[str, Json] = {"PodScheduled": {"status": "False", "reason": reason, "message": message}}
        conditions = with_conditions(_conditions(pod), wanted, time=now())
        self._plane.patch("pods", pod, {"status": {"phase": "Pending", "conditions": conditions}}, status=True)
        if reason == "Unschedulable":
            self._plane.event(pod, "FailedScheduling", message, warning=True)

    def _against(self, pod: Json, node: Json) -> list[str]:
        """What speaks against a node."""
        if why := self.unschedulable(pod):
            return [why]
        if node.get("spec", {}).get("unschedulable"):
            return ["node(s) were unschedulable"]
        if not selects(pod["spec"], node):
            return ["node(s) didn't match Pod's node affinity/selector"]
        if self._shuns(pod, node):
            return ["node(s) didn't match pod anti-affinity rules"]
        used: Counter[str] = Counter()
        for other in self._pods():
            if other["spec"].get("nodeName") == node["metadata"]["name"]:
                used.update(_requests(other))
        capacity = node["status"]["allocatable"]
        return [
            f"Insufficient {name}"
            for name, wanted in _requests(pod).items()
            if used[name] + wanted > quantity(capacity.get(name, 0))
        ]

    def _shuns(self, pod: Json, node: Json) -> bool:
        """Whether a pod must not be where another one is: only by labels, and only node by node."""
        affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
        others = [other for other in self._pods() if other["spec"].get("nodeName") == node["metadata"]["name"]]
        return any(
            (term["labelSelector"].get("matchLabels") or {}).items() <= (other["metadata"].get("labels") or {}).items()
            for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
            for other in others
            if other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        )

    def _pods(self) -> list[Json]:
        return [pod for pod in self._plane.all("pods") if pod.get("status", {}).get("phase") not in ENDED]

    def _why_no_claim(self, pod: Json) -> str:
        """Why a claim of a pod cannot be used, "" if all can be."""
        metadata = pod["metadata"]
        for volume in pod["spec"].get("volumes") or ():
            if "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                if self._plane.get(CLAIMS, metadata["namespace"], name) is None:
                    return f'persistentvolumeclaim "{name}" not found'
            elif "ephemeral" in volume:
                name = claim_of(pod, volume)
                found = self._plane.get(CLAIMS, metadata["namespace"], name)
                if found is None:
                    return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                if not belongs_to(found, pod):
                    inside = metadata["namespace"]
                    return f"PVC {inside}/{name} was not created for pod {inside}/{metadata['name']} (pod is not owner)"
        return ""


def selects(spec: Json, node: Json) -> bool:
    """Whether a node has the labels that a pod asks for, and fulfils one of the terms of its affinity to nodes."""
    metadata = node["metadata"]
    labels, fields = metadata.get("labels") or {}, {"metadata.name": metadata["name"]}
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    for term in required["nodeSelectorTerms"]:
        asked = [*((one, labels) for one in term.get("matchExpressions") or ()),
                 *((one, fields) for one in term.get("matchFields") or ())]  # fmt: skip
        if asked and all(_holds(one, of) for one, of in asked):
            return True
    return False


def _holds(one: Json, of: Json) -> bool:
    """Whether a requirement holds of labels or fields."""
    value, operator, values = of.get(one["key"]), one["operator"], one.get("values") or ()
    known = {
        "In": lambda: value in values,
        "NotIn": lambda: value not in values,
        "Exists": lambda: value is not None,
        "DoesNotExist": lambda: value is None,
        "Gt": lambda: value is not None and int(value) > int(values[0]),
        "Lt": lambda: value is not None and int(value) < int(values[0]),
    }
    return bool(known[operator]())


def _conditions(pod: Json) -> list[Json]:
    return list(pod.get("status", {}).get("conditions") or ())


def _requests(pod: Json) -> dict[str, Fraction]:
    """What a pod asks of its node."""
    total: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        wanted = (resources.get("limits") or {}) | (resources.get("requests") or {})
        total.update({name: Fraction(quantity(amount)) for name, amount in wanted.items()})
    return dict(total)  # type: ignore[arg-type]
