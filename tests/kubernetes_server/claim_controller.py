"""The controllers of volume claims: they make those of ephemeral volumes, and keep those that pods use."""

from __future__ import annotations

import copy
from typing import Any

from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.pod_status import ENDED
from tests.kubernetes_server.refusals import Refusal

Json = dict[str, Any]
CLAIMS = "persistentvolumeclaims"
#: Holds a claim as long as a pod uses it.
PROTECTION = "kubernetes.io/pvc-protection"


class ClaimController:
    """Makes a claim for each ephemeral volume of a pod, which owns it, and lets go of those that nothing uses."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def look(self) -> None:
        """Do for each pod and each claim what is to be done now."""
        used = set()
        for pod in self._plane.all("pods"):
            if pod.get("status", {}).get("phase") in ENDED:
                continue
            namespace = pod["metadata"]["namespace"]
            used |= {(namespace, name) for name in claims_of(pod)}
            if "deletionTimestamp" not in pod["metadata"]:
                self._make(pod)
        for claim in self._plane.all(CLAIMS):
            metadata = claim["metadata"]
            held = metadata.get("finalizers") or ()
            unused = (metadata["namespace"], metadata["name"]) not in used
            if "deletionTimestamp" in metadata and PROTECTION in held and unused:
                kept = [one for one in held if one != PROTECTION]
                self._plane.patch(CLAIMS, claim, {"metadata": {"finalizers": kept}})

    def _make(self, pod: Json) -> None:
        metadata = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"],
                 "controller": True, "blockOwnerDeletion": True}  # fmt: skip
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" not in volume:
                continue
            name, namespace = claim_of(pod, volume), metadata["namespace"]
            if self._plane.get(CLAIMS, namespace, name) is not None:
                continue
            template = copy.deepcopy(volume["ephemeral"]["volumeClaimTemplate"])
            own = {"name": name, "ownerReferences": [owner], "finalizers": [PROTECTION]}
            body = {"metadata": {**(template.get("metadata") or {}), **own}, "spec": template["spec"]}
            try:
                self._plane.create(CLAIMS, body, namespace=namespace)
            except Refusal as refusal:
                if refusal.code not in (403, 404, 409):  # of a namespace that is going or gone
                    raise


def claim_of(pod: Json, volume: Json) -> str:
    """The name of the claim of an ephemeral volume."""
    return f"{pod['metadata']['name']}-{volume['name']}"


def claims_of(pod: Json) -> list[str]:
    """The names of the claims that a pod uses."""
    return [
        claim_of(pod, volume) if "ephemeral" in volume else volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes") or ()
        if {"ephemeral", "persistentVolumeClaim"} & volume.keys()
    ]


def belongs_to(claim: Json, pod: Json) -> bool:
    """Whether a pod owns a claim; its ephemeral volume can be no other."""
    return any(one["uid"] == pod["metadata"]["uid"] for one in claim["metadata"].get("ownerReferences") or ())
