"""The owner of a run in a cluster: a ConfigMap that owns all its objects, and that names the harness that made it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS, PODS
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.selectors import (
    OWNER_ROLE,
    ROLE,
    RUN,
    USER,
    OwnerSelector,
    RunIdentity,
    check_label_value,
)
from chaoskit.environments.machine import owner

_FIELD = "owner"
#: Names of pods are made from it, and a name of a host has 63 letters at most.
_LONGEST_ID = 40
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def id_in_cluster(run_id: str) -> str:
    """A run's id as labels and names in a cluster can have it; other runs get other ids."""
    plain = re.sub(r"[^a-z0-9]+", "-", run_id.lower()).strip("-")
    if plain == run_id and len(run_id) <= _LONGEST_ID:
        return run_id
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:8]
    return f"{plain[: _LONGEST_ID - 9].strip('-')}-{digest}".strip("-")


def name_of(run_id: str) -> str:
    """The name of the ConfigMap of a run."""
    return f"chaoskit-{run_id.lower()}"


def manifest(
    run_id: str, connection: ClusterConnection, *, harness: str = "", makes_claims: bool = False
) -> dict[str, Any]:
    """The ConfigMap of a run whose harness is this process, or a pod of that name that goes on without this process. It
    says whether the run `makes_claims`. Raises ClusterError."""
    check_label_value("run_owner", "run_id", run_id)
    record = {**owner.current(), "machine": machine_id(), "pod": _own_pod(connection)}
    record |= {"harness": harness} if harness else {}
    record |= {"claims": True} if makes_claims else {}
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": name_of(run_id),
            "labels": {RUN: run_id, ROLE: OWNER_ROLE, USER: str(os.getuid())},
        },
        "data": {_FIELD: json.dumps(record)},
    }


def identity_of(made: Mapping[str, Any]) -> RunIdentity:
    """The run of a ConfigMap as the server has it."""
    metadata = made["metadata"]
    return RunIdentity(metadata["namespace"], metadata["labels"][RUN], metadata["uid"])


def makes_claims(found: Mapping[str, Any]) -> bool:
    """Whether there may be volume claims of the run of a ConfigMap that is abandoned."""
    return bool(json.loads(found["data"][_FIELD]).get("claims"))


def reference(identity: RunIdentity) -> dict[str, Any]:
    """The entry of `ownerReferences` by which an object goes when the ConfigMap of its run goes."""
    name = name_of(identity.run)
    return {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "name": name, "uid": identity.uid}


def of_this_user(namespace: str) -> OwnerSelector:
    """Selects the ConfigMaps of all runs of this user."""
    return OwnerSelector(namespace, str(os.getuid()))


def is_abandoned(found: Mapping[str, Any], connection: ClusterConnection) -> bool:
    """Whether the harness of a ConfigMap is known to be dead: its pod has ended, or its process on this machine.

    A cluster is used from many machines, and two of them may have the same host name: of a harness of another machine,
    or of one without an id, nothing is known. Raises ClusterError.
    """
    try:
        record = json.loads(found["data"][_FIELD])
        pod, machine, named = record.get("pod"), record.get("machine"), "host" in record
    except (KeyError, TypeError, ValueError, AttributeError):
        return False  # whoever has put our labels on it
    namespace, harness = str((found.get("metadata") or {}).get("namespace") or ""), record.get("harness")
    if isinstance(harness, str) and _may_run(_pod(connection, namespace, harness)):
        return False
    if pod:
        return _has_ended(pod, connection)
    return named and bool(machine) and machine == machine_id() and owner.is_dead(record)


def _own_pod(connection: ClusterConnection) -> dict[str, str] | None:
    """The pod of this process, if it runs in one and may look at it: a pod is named like its host."""
    try:
        namespace = _NAMESPACE_FILE.read_text().strip() if connection.address.is_own else ""
    except OSError:
        return None
    pod = _pod(connection, namespace, socket.gethostname()) if namespace else None
    return {name: pod["metadata"][name] for name in ("namespace", "name", "uid")} if pod else None


def _may_run(pod: Mapping[str, Any] | None) -> bool:
    """Whether a pod runs, or nobody knows."""
    return pod is None or (bool(pod) and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"))


def _has_ended(pod: Any, connection: ClusterConnection) -> bool:
    if not isinstance(pod, dict) or not all(isinstance(pod.get(name), str) for name in ("namespace", "name", "uid")):
        return False
    found = _pod(connection, pod["namespace"], pod["name"])
    if found is None:
        return False
    phase = (found.get("status") or {}).get("phase")
    return (found.get("metadata") or {}).get("uid") != pod["uid"] or phase in ("Succeeded", "Failed")


def _pod(connection: ClusterConnection, namespace: str, name: str) -> Mapping[str, Any] | None:
    """The pod of this name, empty if there is none; None if this user may not know. It is only looked at."""
    try:
        return connection.get(ApiTarget(PODS, namespace, name))
    except ClusterError as error:
        if error.status not in (403, 404):
            raise
        return {} if error.status == 404 else None


def machine_id() -> str:
    """The id of this installation, which is not the same on two machines; "" where there is none."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
