"""Manifests for tests of a cluster, and what lies in a namespace whoever made it."""

from __future__ import annotations

from typing import Any

from chaoskit.environments.kubernetes.api_kinds import (
    CHAOS_FAULTS,
    CHAOS_MESH,
    CHAOS_SCHEDULES,
    CONFIG_MAPS,
    JOBS,
    PODS,
    SERVICES,
    ApiKind,
)
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.selectors import RunSelector

POD_CHAOS, NETWORK_CHAOS = CHAOS_FAULTS[0], CHAOS_FAULTS[1]
SCHEDULES = CHAOS_SCHEDULES[0]
#: Whatever a test makes is of one of these.
KINDS = (PODS, JOBS, SERVICES, CONFIG_MAPS, POD_CHAOS, NETWORK_CHAOS, SCHEDULES)
CONTAINERS = [{"name": "trainer", "image": "registry.example/trainer:1"}]


def named(kind: ApiKind, name: str, **more: Any) -> dict[str, Any]:
    """A manifest of that kind."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **more}


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod with these labels alone."""
    made = named(PODS, name, spec={"containers": CONTAINERS})
    made["metadata"]["labels"] = labels
    return made


def job(name: str) -> dict[str, Any]:
    """A Job that makes no pods: whatever the cluster, only what a test makes is there."""
    inner = {"containers": CONTAINERS, "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"app": "trainer"}}, "spec": inner}
    return named(JOBS, name, spec={"suspend": True, "template": template})


def pod_chaos(name: str, run: RunObjects) -> dict[str, Any]:
    """A fault that hits the run's own pods."""
    selector = RunSelector(run.identity).for_chaos_mesh()
    spec = {"action": "pod-failure", "mode": "one", "selector": selector, "duration": "30s"}
    made = named(POD_CHAOS, name, spec=spec)
    made["metadata"]["finalizers"] = ["chaos-mesh/records"]
    return made


def schedule(name: str, run: RunObjects) -> dict[str, Any]:
    """A fault every two minutes."""
    fault = {"action": "pod-kill", "mode": "one", "selector": RunSelector(run.identity).for_chaos_mesh()}
    spec = {"schedule": "@every 2m", "concurrencyPolicy": "Forbid", "historyLimit": 1, "type": "PodChaos"}
    spec["podChaos"] = fault
    return named(SCHEDULES, name, spec=spec)


def service(name: str) -> dict[str, Any]:
    """A headless Service."""
    return named(SERVICES, name, spec={"clusterIP": "None", "selector": {"app": "trainer"}})


def there(connection: ClusterConnection, namespace: str) -> set[str]:
    """Everything in the namespace, such as `Pod p0`, whoever made it."""
    found = set()
    for kind in KINDS:
        try:
            items = connection.page(ApiTarget(kind, namespace), {})["items"]
        except ClusterError as error:
            assert error.status == 404 and kind.group == CHAOS_MESH, error
            continue
        found |= {f"{kind.kind} {item['metadata']['name']}" for item in items}
    return found - {"ConfigMap kube-root-ca.crt"}
