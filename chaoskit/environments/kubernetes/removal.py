"""The only module that removes objects of a cluster, by evictions too, and that changes any: a fault may be forced to
go, or pause, and a Job may be suspended."""

from __future__ import annotations

from collections.abc import Mapping

from chaoskit.environments.kubernetes.api_kinds import JOBS, PODS, ApiKind
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.selectors import RunSelector

_NOT_FOUND = 404
#: Drops the finalizer of a fault of Chaos Mesh without taking the fault back.
_FORCED = {"chaos-mesh.chaos-mesh.org/cleanFinalizer": "forced"}
#: Takes a fault of Chaos Mesh back for as long as it is "true".
PAUSE = "experiment.chaos-mesh.org/pause"


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
    for manifest in listed(connection, kind, selector).manifests:
        if manifest["metadata"]["uid"] == uid:
            remove(connection, kind, selector.namespace, str(manifest["metadata"]["name"]), uid=uid, grace=grace)
            return True
    return False


def evict_one(connection: ClusterConnection, selector: RunSelector, *, uid: str) -> bool:
    """Ask for the eviction of the pod with this uid, if the selector finds it among those of its run; whether it does.
    Raises ClusterError, with status 429 while a PodDisruptionBudget does not allow it."""
    for manifest in listed(connection, PODS, selector).manifests:
        if manifest["metadata"]["uid"] == uid:
            connection.evict(ApiTarget(PODS, selector.namespace, str(manifest["metadata"]["name"])), uid=uid)
            return True
    return False


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


def pause_fault(connection: ClusterConnection, kind: ApiKind, namespace: str, name: str, *, paused: bool) -> None:
    """Let Chaos Mesh take a fault back, and later make it again. Raises ClusterError."""
    _annotate(connection, ApiTarget(kind, namespace, name), {PAUSE: "true" if paused else None})


def suspend_job(connection: ClusterConnection, namespace: str, name: str, *, suspended: bool) -> None:
    """Have the controller delete the pods of a Job, or make them again. Raises ClusterError."""
    connection.patch(ApiTarget(JOBS, namespace, name), {"spec": {"suspend": suspended}})


def _annotate(connection: ClusterConnection, target: ApiTarget, annotations: Mapping[str, str | None]) -> None:
    connection.patch(target, {"metadata": {"annotations": annotations}})
