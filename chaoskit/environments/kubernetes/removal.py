"""The only module that removes objects of a cluster, by evictions too, and that changes any: a fault may be forced to
go, and a job may be suspended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import PODS, ApiKind
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.selectors import RunSelector

_NOT_FOUND = 404
#: Drops the finalizer of a fault of Chaos Mesh without taking the fault back.
_FORCED = {"chaos-mesh.chaos-mesh.org/cleanFinalizer": "forced"}


def remove(
    connection: ClusterConnection, kind: ApiKind, namespace: str, name: str, *, uid: str, grace: int = 0
) -> None:
    """Begin the removal of one object; a pod has `grace` seconds to end by itself. Raises ClusterError."""
    connection.delete(ApiTarget(kind, namespace, name), uid=uid, grace=grace if kind == PODS else None)


def remove_one(
    connection: ClusterConnection, kind: ApiKind, selector: RunSelector, *, uid: str, grace: int = 0
) -> bool:
    """Begin the removal of the object with this uid, if the selector finds it among those of its run; whether it does.
    Raises ClusterError."""
    name = _name(connection, kind, selector, uid)
    if name is not None:
        remove(connection, kind, selector.namespace, name, uid=uid, grace=grace)
    return name is not None


def evict_one(connection: ClusterConnection, selector: RunSelector, *, uid: str) -> bool:
    """Ask for the eviction of the pod with this uid, if the selector finds it among those of its run; whether it does.
    Raises ClusterError, with status 429 while a PodDisruptionBudget does not allow it."""
    name = _name(connection, PODS, selector, uid)
    if name is not None:
        connection.evict(ApiTarget(PODS, selector.namespace, name), uid=uid)
    return name is not None


def force(connection: ClusterConnection, kind: ApiKind, namespace: str, name: str) -> bool:
    """Whether a fault was told to go although Chaos Mesh does not take it back. If the controller of Chaos Mesh is
    down, its webhook refuses even that. Raises ClusterError if the server does not answer."""
    try:
        _annotate(connection, ApiTarget(kind, namespace, name), _FORCED)
    except ClusterError as error:
        if error.status == _NOT_FOUND:
            return False  # it has just gone by itself
        if error.status < 400:
            raise
        return False
    return True


def suspend_job(connection: ClusterConnection, job: ApiTarget, change: Mapping[str, Any]) -> None:
    """Have the controller delete the pods of a job, or make them again, by this change. Raises ClusterError."""
    connection.patch(job, change)


def _name(connection: ClusterConnection, kind: ApiKind, selector: RunSelector, uid: str) -> str | None:
    """The name of the object with this uid among those that the selector finds; None if it finds none."""
    found = [manifest["metadata"] for manifest in listed(connection, kind, selector).manifests]
    return next((str(each["name"]) for each in found if each["uid"] == uid), None)


def _annotate(connection: ClusterConnection, target: ApiTarget, annotations: Mapping[str, str | None]) -> None:
    connection.patch(target, {"metadata": {"annotations": annotations}})
