"""`why_not`: what a capability needs of the cluster, of Chaos Mesh, of the pods or of the job, and is lacking."""

from __future__ import annotations

from chaoskit.capabilities import (
    CanDegrade,
    CanDrain,
    CanEvict,
    CanFailStorage,
    CanHideNames,
    CanLimitMemory,
    CanLimitProcessor,
    CanPartition,
    CanSkewClock,
    CanSuspend,
)
from chaoskit.environments.kubernetes import permissions
from chaoskit.environments.kubernetes.api_kinds import (
    DNS_CHAOS,
    IO_CHAOS,
    NETWORK_CHAOS,
    STRESS_CHAOS,
    TIME_CHAOS,
    ApiKind,
)
from chaoskit.environments.kubernetes.chaos import mesh_look
from chaoskit.environments.kubernetes.chaos.pod_stress import limit_remedy
from chaoskit.environments.kubernetes.cluster import connection_to
from chaoskit.environments.kubernetes.job_faults import NO_CONTROLLER
from chaoskit.environments.kubernetes.job_template import of_place
from chaoskit.environments.kubernetes.pod_evictions import TEMPLATE_STAYS
from chaoskit.nodes import ClusterPlace

#: The kinds of Chaos Mesh that capabilities need,
_KINDS: dict[type, ApiKind] = {
    CanPartition: NETWORK_CHAOS,
    CanDegrade: NETWORK_CHAOS,
    CanHideNames: DNS_CHAOS,
    CanFailStorage: IO_CHAOS,
    CanLimitMemory: STRESS_CHAOS,
    CanLimitProcessor: STRESS_CHAOS,
    CanSkewClock: TIME_CHAOS,
}
#: and the limits of the pods that they use up.
_LIMITS: dict[type, str] = {CanLimitMemory: "memory", CanLimitProcessor: "cpu"}


def why_not(capability: type, place: ClusterPlace) -> str | None:
    """None if nothing is lacking, else the reason and the remedy. Raises ClusterError if the API server fails."""
    template = of_place(place)
    if capability is CanSuspend:
        return None if template is not None else NO_CONTROLLER
    if capability is CanDrain and template is not None:
        return TEMPLATE_STAYS
    if capability in (CanEvict, CanDrain):
        return permissions.no_eviction(connection_to(place), place.namespace)
    kind, limit = _KINDS.get(capability), _LIMITS.get(capability)
    if kind is None:
        return None
    resources = place.resources if template is None else template.container.get("resources") or {}
    if limit is not None and limit not in (resources.get("limits") or {}):
        where = limit_remedy(limit) if template is None else "give its container one in the job template"
        return f"it needs pods with a limit of {limit}, which Chaos Mesh then uses up: {where}"
    return mesh_look.why_not(connection_to(place), place.namespace, kind)
