"""`ClusterAbout`: what a cluster says of itself: its version, and which kinds of Chaos Mesh and of jobs it has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaoskit.environments.kubernetes.api_kinds import (
    CHAOS_FAULTS,
    CHAOS_MESH,
    FURTHER_JOBS,
    QUOTAS,
    ApiKind,
)
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection

#: The first version whose Job controller counts failures by index and replaces a pod only after it has failed.
OLDEST = (1, 29)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True)
class ClusterAbout:
    """`served` has the versions that the server serves of each API group, and `kinds` those that chaoskit knows and
    that are there."""

    version: str
    served: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kinds: tuple[ApiKind, ...] = ()

    @property
    def is_new_enough(self) -> bool:
        """Whether its Job controller has what a run needs."""
        found = _VERSION.match(self.version)
        return found is not None and (int(found[1]), int(found[2])) >= OLDEST

    @property
    def chaos_kinds(self) -> tuple[ApiKind, ...]:
        """The kinds of Chaos Mesh that are there."""
        return tuple(kind for kind in self.kinds if kind.group == CHAOS_MESH)

    @property
    def chaos_versions(self) -> tuple[str, ...]:
        """The versions in which Chaos Mesh is served; empty if it is not installed."""
        return tuple(self.served.get(CHAOS_MESH, ()))


@dataclass(frozen=True)
class QuotaLine:
    """One limit of the namespace: `used` of `hard`, as the server writes quantities."""

    resource: str
    used: str
    hard: str

    def __str__(self) -> str:
        return f"{self.resource} {self.used} of {self.hard}"


def ask(connection: ClusterConnection) -> ClusterAbout:
    """Ask the server; every user may. Raises ClusterError."""
    version = str(connection.read("/version", what="ask for the version of the cluster").get("gitVersion") or "")
    groups = connection.read("/apis", what="list the API groups").get("groups") or []
    served = {
        str(group["name"]): tuple(str(one["version"]) for one in group.get("versions") or ()) for group in groups
    }
    known = (*CHAOS_FAULTS, *FURTHER_JOBS)
    there: set[tuple[str, str]] = set()
    for group, number in {(kind.group, kind.version) for kind in known}:
        if number in served.get(group, ()):
            there |= {(group, plural) for plural in _plurals(connection, group, number)}
    return ClusterAbout(version, served, tuple(kind for kind in known if (kind.group, kind.plural) in there))


def namespace_is_there(connection: ClusterConnection, namespace: str) -> bool | None:
    """Whether there is a namespace; None if this user may not know. Raises ClusterError."""
    try:
        connection.read(f"/api/v1/namespaces/{namespace}", what=f"look at namespace {namespace}")
    except ClusterError as error:
        if error.status not in (403, 404):
            raise
        return None if error.status == 403 else False
    return True


def quota_of(connection: ClusterConnection, namespace: str) -> tuple[QuotaLine, ...] | None:
    """The limits of a namespace; None if this user may not read them. Raises ClusterError."""
    try:
        items = connection.page(ApiTarget(QUOTAS, namespace), {}).get("items") or []
    except ClusterError as error:
        if error.status != 403:
            raise
        return None
    lines = []
    for item in items:
        status = item.get("status") or {}
        hard: Mapping[str, object] = status.get("hard") or (item.get("spec") or {}).get("hard") or {}
        used: Mapping[str, object] = status.get("used") or {}
        lines += [QuotaLine(what, str(used.get(what, "0")), str(most)) for what, most in hard.items()]
    return tuple(lines)


def _plurals(connection: ClusterConnection, group: str, version: str) -> list[str]:
    told = connection.read(f"/apis/{group}/{version}", what=f"list the kinds of {group}")
    return [str(one["name"]) for one in told.get("resources") or ()]
