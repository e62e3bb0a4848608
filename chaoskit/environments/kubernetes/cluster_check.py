"""`chaoskit kubernetes check`: whether runs will be possible in a namespace. It makes nothing in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaoskit.environments.kubernetes import cluster_about, permissions
from chaoskit.environments.kubernetes.access_rule import AccessRule
from chaoskit.environments.kubernetes.api_kinds import CHAOS_FAULTS, CHAOS_SCHEDULES, FURTHER_JOBS, QUOTAS
from chaoskit.environments.kubernetes.cluster_about import OLDEST, ClusterAbout
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.permissions import SmallestRole
from chaoskit.errors import UsageError

#: What only a run finds out.
NOT_CHECKED = (
    "admission policies and webhooks that would refuse an object",
    "whether the controller of Chaos Mesh runs",
    "whether nodes have room, and fetch the image",
    "whether two nodes can write to one volume",
)


@dataclass(frozen=True)
class ClusterFinding:
    """One line: `what` was examined, what was `found`, whether it is `good`, and the remedy if not. Without what is
    `needed` there can be no run."""

    what: str
    found: str
    good: bool = True
    remedy: str = ""
    needed: bool = True


def examine(connection: ClusterConnection, namespace: str) -> list[ClusterFinding]:
    """Examine everything that a run in the namespace depends on. Raises UsageError if there is no such namespace,
    ClusterError if the server fails or does not accept the credentials."""
    about = cluster_about.ask(connection)
    return [
        ClusterFinding("server", connection.address.server),
        _version(about),
        _namespace(connection, namespace),
        *_permissions(connection, namespace, about),
        _chaos_mesh(about),
        *_jobs(connection, namespace, about),
        *_quota(connection, namespace),
    ]


def smallest_role(connection: ClusterConnection, namespace: str) -> SmallestRole:
    """The Role for what the cluster has. Raises ClusterError."""
    about = cluster_about.ask(connection)
    return SmallestRole(
        namespace,
        (*permissions.BASE, *permissions.for_chaos(about.kinds)),
        permissions.for_jobs(about.kinds),
        permissions.who_am_i(connection),
    )


def _version(about: ClusterAbout) -> ClusterFinding:
    oldest = ".".join(map(str, OLDEST))
    remedy = f"use a cluster of version {oldest} or newer: older Job controllers do not replace single failed pods"
    return ClusterFinding("version", about.version or "unknown", about.is_new_enough, remedy)


def _namespace(connection: ClusterConnection, namespace: str) -> ClusterFinding:
    there = cluster_about.namespace_is_there(connection, namespace)
    if there is False:
        raise UsageError(f"there is no namespace {namespace!r} in this cluster: kubectl create namespace {namespace}")
    found = namespace if there else f"{namespace}; this user may not ask whether it is there, so its name is trusted"
    return ClusterFinding("namespace", found)


def _permissions(connection: ClusterConnection, namespace: str, about: ClusterAbout) -> Iterator[ClusterFinding]:
    for rule in (*permissions.BASE, *permissions.for_chaos(about.kinds)):
        lacking = {one.resources[0]: one for one in permissions.missing(connection, namespace, rule)}
        for resource in rule.resources:
            yield _permission(resource, rule.verbs, lacking.get(resource))


def _permission(resource: str, verbs: tuple[str, ...], lacking: AccessRule | None) -> ClusterFinding:
    if lacking is None:
        return ClusterFinding(f"permission on {resource}", ", ".join(verbs))
    found = f"not allowed: {', '.join(lacking.verbs)}"
    return ClusterFinding(f"permission on {resource}", found, False, f"add to the Role: {lacking}")


def _chaos_mesh(about: ClusterAbout) -> ClusterFinding:
    known = (*CHAOS_FAULTS, *CHAOS_SCHEDULES)
    if not about.chaos_versions:
        remedy = "install it for faults of network, storage, clock and memory (https://chaos-mesh.org/docs)"
        return ClusterFinding("Chaos Mesh", "not installed", False, remedy, needed=False)
    served, wanted = ", ".join(about.chaos_versions), known[0].version
    if wanted not in about.chaos_versions:
        remedy = f"install Chaos Mesh 2.x, which serves {wanted}"
        return ClusterFinding("Chaos Mesh", f"serves {served} only", False, remedy, needed=False)
    there = [kind.kind for kind in about.chaos_kinds]
    lacking = [kind.kind for kind in known if kind not in about.chaos_kinds]
    found = f"serves {served}: {', '.join(there) or 'no kind that chaoskit knows'}"
    remedy = f"install the missing kinds of Chaos Mesh: {', '.join(lacking)}"
    return ClusterFinding("Chaos Mesh", found, not lacking, remedy, needed=False)


def _jobs(connection: ClusterConnection, namespace: str, about: ClusterAbout) -> Iterator[ClusterFinding]:
    rules = permissions.for_jobs(about.kinds)
    for kind in FURTHER_JOBS:
        if kind not in about.kinds:
            yield ClusterFinding(kind.kind, "not installed; a Job of Kubernetes itself needs no installation")
            continue
        lacking = tuple(permissions.missing(connection, namespace, rules[kind.kind]))
        found = f"serves {', '.join(about.served[kind.group])}"
        verbs = "; ".join(f"{one.resources[0]}: {', '.join(one.verbs)}" for one in lacking)
        remedy = f"for jobs of this kind, add to the Role: {', '.join(map(str, lacking))}"
        found += f", not allowed: {verbs}" if lacking else ""
        yield ClusterFinding(kind.kind, found, not lacking, remedy, needed=False)


def _quota(connection: ClusterConnection, namespace: str) -> Iterator[ClusterFinding]:
    lines = cluster_about.quota_of(connection, namespace)
    if lines is None:
        rule = ApiTarget(QUOTAS, namespace).rule("list")
        found = "this user may not read it; a run does not need to"
        yield ClusterFinding("quota", found, False, f"to see it here, add to the Role: {rule}", needed=False)
    elif not lines:
        yield ClusterFinding("quota", "none in this namespace")
    else:
        yield ClusterFinding("quota", ", ".join(map(str, lines)))
