"""`why_not`: what a capability needs of Chaos Mesh and of the pods, and the cluster or the job lacks."""

from __future__ import annotations

from chaoskit.capabilities import (
    CanDegrade,
    CanFailStorage,
    CanHideNames,
    CanLimitMemory,
    CanLimitProcessor,
    CanPartition,
)
from chaoskit.environments.kubernetes.api_kinds import DNS_CHAOS, IO_CHAOS, NETWORK_CHAOS, STRESS_CHAOS, ApiKind
from chaoskit.environments.kubernetes.chaos import mesh_look
from chaoskit.environments.kubernetes.chaos.pod_stress import limit_remedy
from chaoskit.environments.kubernetes.cluster import connection_to
from chaoskit.nodes import ClusterPlace

#: The kinds of Chaos Mesh that capabilities need,
_KINDS: dict[type, ApiKind] = {
    CanPartition: NETWORK_CHAOS,
    CanDegrade: NETWORK_CHAOS,
    CanHideNames: DNS_CHAOS,
    CanFailStorage: IO_CHAOS,
    CanLimitMemory: STRESS_CHAOS,
    CanLimitProcessor: STRESS_CHAOS,
}
#: and the limits of the pods that they use up.
_LIMITS: dict[type, str] = {CanLimitMemory: "memory", CanLimitProcessor: "cpu"}


def why_not(capability: type, place: ClusterPlace) -> str | None:
    """None if nothing is lacking, else the reason and the remedy. Raises ClusterError if the API server fails."""
    kind, limit = _KINDS.get(capability), _LIMITS.get(capability)
    if kind is None:
        return None
    if limit is not None and limit not in place.resources.get("limits", {}):
        return f"it needs pods with a limit of {limit}, which Chaos Mesh then uses up: {limit_remedy(limit)}"
    return mesh_look.why_not(connection_to(place), place.namespace, kind)
