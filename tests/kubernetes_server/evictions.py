"""Evictions: a pod is deleted as whoever drains a node does it, if the budgets of its namespace allow that now.

There is no controller of budgets here: how many disruptions one allows is counted when it is asked for. Counts are
whole numbers, as a real server wants them for pods without a controller.
"""

from __future__ import annotations

from typing import Any

from tests.kubernetes_server.lifecycle import Deletion, Lifecycle, now
from tests.kubernetes_server.pod_status import ENDED, with_conditions
from tests.kubernetes_server.refusals import Refusal, conflict
from tests.kubernetes_server.resources import Catalogue, Resource
from tests.kubernetes_server.store import Store

Json = dict[str, Any]
#: What the API server writes on a pod before it deletes it.
CONDITION = {"status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}


def evict(
    pods: Resource,
    pod: Json,
    options: Json,
    *,
    store: Store,
    catalogue: Catalogue,
    lifecycle: Lifecycle,
    dry_run: bool,
) -> None:
    """Evict a pod; raises Refusal: 429 where a budget does not allow it, 409 where the preconditions do not hold."""
    metadata = pod["metadata"]
    how = Deletion(grace=options.get("gracePeriodSeconds"), preconditions=options.get("preconditions") or {})
    wanted = how.preconditions.get("uid", metadata["uid"])
    if wanted != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {metadata['uid']}"
        raise conflict(pods, metadata["name"], why)
    if pod.get("status", {}).get("phase") in (*ENDED, "Pending") or "deletionTimestamp" in metadata:
        lifecycle.delete(pods, pod, how, dry_run=dry_run)
        return
    budgets = store.all(catalogue.named("poddisruptionbudgets", "policy"), metadata["namespace"])
    for budget in budgets:
        if _covers(budget, pod):
            _must_allow(budget, [one for one in store.all(pods, metadata["namespace"]) if _covers(budget, one)])
    if not dry_run:
        status = pod.get("status") or {}
        conditions = with_conditions(status.get("conditions") or (), {"DisruptionTarget": CONDITION}, time=now())
        pod = lifecycle.replace(pods, pod, {**pod, "status": {**status, "conditions": conditions}})
    lifecycle.delete(pods, {**pod, "metadata": dict(pod["metadata"])}, how, dry_run=dry_run)


def _covers(budget: Json, pod: Json) -> bool:
    wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
    return wanted.items() <= (pod["metadata"].get("labels") or {}).items()


def _must_allow(budget: Json, pods: list[Json]) -> None:
    healthy = [pod for pod in pods if _is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
    spec = budget["spec"]
    needed = spec["minAvailable"] if "minAvailable" in spec else len(pods) - spec["maxUnavailable"]
    if len(healthy) > needed:
        return
    name = budget["metadata"]["name"]
    said = f"The disruption budget {name} needs {needed} healthy pods and has {len(healthy)} currently"
    causes = [{"reason": "DisruptionBudget", "message": said}]
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    raise Refusal(429, "TooManyRequests", message, details={"causes": causes})


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
