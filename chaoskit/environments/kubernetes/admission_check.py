"""What admission policies and webhooks say to the objects of a run: the server checks one of each, and makes none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes import run_owner
from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS, PODS, SERVICES, ApiKind
from chaoskit.environments.kubernetes.cluster_error import ClusterError, who_refuses
from chaoskit.environments.kubernetes.cluster_finding import ClusterFinding
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.dry_run import as_stored
from chaoskit.environments.kubernetes.objects import owned
from chaoskit.environments.kubernetes.pod_manifest import (
    NAMES_ROLE,
    NODE_ROLE,
    VolumePart,
    look_pod,
    names_service,
    node_pod,
)
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector
from chaoskit.nodes import ClusterPlace

#: What an object of the check would be called.
RUN = "check"
#: Stands for the image of the job where none is named.
NO_IMAGE = "registry.example/trainer:1"
_GROUP = "/apis/admissionregistration.k8s.io/v1"
_GUARDS = ("validatingadmissionpolicies", "validatingwebhookconfigurations", "mutatingwebhookconfigurations")
_NO_DRY_RUN = "does not support dry run"


def examine(connection: ClusterConnection, place: ClusterPlace, image: str) -> Iterator[ClusterFinding]:
    """Have the server check an object of each kind that a run of this image makes. Raises ClusterError."""
    guards = _guards(connection)
    if guards is not None:
        yield ClusterFinding("admission guards", ", ".join(guards) or "none")
    identity = RunIdentity(place.namespace, RUN, "uid-of-the-owner")
    labels = RunSelector(identity, NODE_ROLE).labels
    objects: list[tuple[ApiKind, Mapping[str, Any]]] = [
        (CONFIG_MAPS, run_owner.manifest(RUN, connection)),
        (SERVICES, owned(names_service("chaoskit-check", labels), identity, role=NAMES_ROLE)),
        (PODS, owned(_node(place, image or NO_IMAGE), identity, role=NODE_ROLE, node=0)),
        (PODS, owned(look_pod("chaoskit-check-look", place=place, image=image or NO_IMAGE, command=["python3"]),
                     identity, role="look")),
    ]  # fmt: skip
    told: dict[ApiKind, ClusterFinding] = {}
    for kind, manifest in objects:
        try:
            as_stored(connection, place.namespace, kind, manifest)
            found: ClusterFinding | None = ClusterFinding(f"admission of {kind.plural}", "the server would accept them")
        except ClusterError as error:
            found = refusal(error, kind)
        if found is not None and (kind not in told or told[kind].good):
            told[kind] = found
    for kind, said in told.items():
        if kind == PODS and not image and not said.good:
            remedy = f"{said.remedy}; check again with --image, which it may want"
            said = replace(said, found=f"{said.found} (with the image {NO_IMAGE})", remedy=remedy, needed=False)
        yield said


def refusal(error: ClusterError, kind: ApiKind, *, needed: bool = True) -> ClusterFinding | None:
    """The line for an object that the server does not take; None if this user may not make it, which another line says.
    Raises the error of a server that fails."""
    what, who = f"admission of {kind.plural}", who_refuses(error)
    if error.lacks_permission:
        return None
    if _NO_DRY_RUN in error.sentence:
        return ClusterFinding(what, f"could not be shown: {error.sentence}", needed=needed)
    if error.status == 401 or not (who or 400 <= error.status < 500):
        raise error
    by = f"refused by {who}: " if who else "refused: "
    remedy = error.remedy or "the sentence of the server says what to change"
    return ClusterFinding(what, f"{by}{error.sentence}", False, remedy, needed=needed)


def _node(place: ClusterPlace, image: str) -> dict[str, Any]:
    return node_pod(
        "chaoskit-check-node0", node="node0", service="chaoskit-check", place=place, image=image, command=["python3"],
        variables={}, parts=[VolumePart(Path(place.path), read_only=True)],
    )  # fmt: skip


def _guards(connection: ClusterConnection) -> list[str] | None:
    """The policies and webhooks of the cluster by name; None if this user may not see any of them."""
    found: list[str] = []
    seen = False
    for plural in _GUARDS:
        try:
            items = connection.read(f"{_GROUP}/{plural}", what=f"list {plural}").get("items") or ()
        except ClusterError as error:
            if error.status not in (403, 404):
                raise
            continue
        seen = True
        found += [f"{plural} {item['metadata']['name']}" for item in items]
    return found if seen else None
