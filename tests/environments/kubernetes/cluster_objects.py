"""Manifests for tests of a cluster, and what lies in a namespace whoever made it."""

from __future__ import annotations

from typing import Any

from chaoskit.environments.kubernetes.api_kinds import (
    CHAOS_MESH,
    CONFIG_MAPS,
    JOBS,
    NETWORK_CHAOS,
    PODS,
    SERVICES,
    ApiKind,
)
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.selectors import RunSelector

#: Whatever a test makes is of one of these.
KINDS = (PODS, JOBS, SERVICES, CONFIG_MAPS, NETWORK_CHAOS)
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


def partition(name: str, run: RunObjects) -> dict[str, Any]:
    """A fault that hits the run's own pods."""
    one, other = ({"mode": "all", "selector": RunSelector(run.identity, "trainer", n).for_chaos_mesh()} for n in (0, 1))
    spec = {"action": "partition", **one, "direction": "both", "target": other, "duration": "30s"}
    made = named(NETWORK_CHAOS, name, spec=spec)
    made["metadata"]["finalizers"] = ["chaos-mesh/records"]
    return made


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
