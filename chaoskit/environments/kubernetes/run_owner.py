"""The owner of a run in a cluster: a ConfigMap that owns all its objects, and that names the harness that made it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS
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


def name_of(run_id: str) -> str:
    """The name of the ConfigMap of a run."""
    return f"chaoskit-{run_id.lower()}"


def manifest(run_id: str) -> dict[str, Any]:
    """The ConfigMap of a run whose harness is this process."""
    check_label_value("run_owner", "run_id", run_id)
    record = {**owner.current(), "machine": machine_id()}
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


def reference(identity: RunIdentity) -> dict[str, Any]:
    """The entry of `ownerReferences` by which an object goes when the ConfigMap of its run goes."""
    name = name_of(identity.run)
    return {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "name": name, "uid": identity.uid}


def of_this_user(namespace: str) -> OwnerSelector:
    """Selects the ConfigMaps of all runs of this user."""
    return OwnerSelector(namespace, str(os.getuid()))


def is_abandoned(found: Mapping[str, Any]) -> bool:
    """Whether the harness of a ConfigMap is known to be dead. A cluster is used from many machines, and two of them may
    have the same host name: of a harness of another machine, or of one without an id, nothing is known."""
    try:
        record = json.loads(found["data"][_FIELD])
        same = bool(machine_id()) and record["machine"] == machine_id() and "host" in record
    except (KeyError, TypeError, ValueError):
        return False  # whoever has put our labels on it
    return same and owner.is_dead(record)


def machine_id() -> str:
    """The id of this installation, which is not the same on two machines; "" where there is none."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
