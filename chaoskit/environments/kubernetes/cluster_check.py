"""`chaoskit kubernetes check`: whether runs will be possible in a namespace. Without an image it makes nothing in the
cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

from chaoskit.environments.kubernetes import admission_check, chaos_check, cluster_about, permissions, volume_check
from chaoskit.environments.kubernetes.access_rule import AccessRule
from chaoskit.environments.kubernetes.api_kinds import CHAOS_FAULTS, FURTHER_JOBS, JOBS, NETWORK_CHAOS, QUOTAS
from chaoskit.environments.kubernetes.cluster_about import OLDEST, ClusterAbout
from chaoskit.environments.kubernetes.cluster_finding import ClusterFinding
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.image_look import examine as look_into
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.permissions import ClusterUser, SmallestRole
from chaoskit.environments.machine import scratch
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.nodes import ClusterPlace

#: What only a run finds out.
NOT_CHECKED = ("whether nodes have room for the job",)
#: What pods of the check find out: they are made where an image is given.
_BY_PODS = "whether nodes fetch the image, and whether two nodes can write to the volume (give --image and --volume)"
_CONTROLLER = "whether the controller of Chaos Mesh works (give --image)"
_TCP = 'whether pods may connect to chaoskit (if not: channel = "volume")'


def examine(
    connection: ClusterConnection,
    place: ClusterPlace,
    *,
    has_claim: bool = False,
    makes_claims: bool = False,
    image: str = "",
) -> list[ClusterFinding]:
    """Examine everything that a run in the namespace of `place` depends on; the claim only if it `has_claim`, and the
    permission on further claims only if its job template `makes_claims`. With an `image` this makes short pods, and a
    fault that matches none, and removes them.

    Raises UsageError if there is no such namespace, ClusterError if the server fails or does not accept the
    credentials.
    """
    namespace, about = place.namespace, cluster_about.ask(connection)
    found = [
        ClusterFinding("server", connection.address.server),
        _version(about),
        _namespace(connection, namespace),
        _channel(place),
        *_permissions(connection, namespace, about, claims=makes_claims),
        *admission_check.examine(connection, place, image),
        *([volume_check.of_claim(connection, namespace, place.claim)] if has_claim else []),
        *chaos_check.examine(connection, namespace, about),
        *_jobs(connection, namespace, about),
        *_quota(connection, namespace),
    ]
    if image:
        hopeless = [one for one in found if one.needed and not one.good]
        if hopeless:
            said = "none was made: what is missing above comes first"
            found.append(ClusterFinding("pods of the image", said, False, needed=False))
        else:
            found += _by_pods(connection, place, about, has_claim=has_claim, image=image)
    return found


def not_checked(place: ClusterPlace, *, image: str, has_claim: bool) -> tuple[str, ...]:
    """What the check leaves open."""
    by_tcp = [_TCP] if place.channel == "tcp" else []
    return (*NOT_CHECKED, *by_tcp, *([] if image and has_claim else [_BY_PODS]), *([] if image else [_CONTROLLER]))


def smallest_role(
    connection: ClusterConnection,
    namespace: str,
    *,
    chaos: bool | None = None,
    from_outside: bool = False,
    claims: bool = False,
    account: str = "",
) -> SmallestRole:
    """The Role for a run with faults of Chaos Mesh or without; None goes by what the cluster has. With `from_outside`
    it is for somebody who starts chaoskit in a pod, with `claims` for a job template that makes volume claims. It is
    bound to the service account `account`, or else to this user. Raises ClusterError."""
    about = cluster_about.ask(connection)
    there = CHAOS_FAULTS if chaos else () if chaos is False else about.kinds
    inside = (*permissions.FOR_EVICTION, *permissions.for_jobs(about.kinds), *permissions.for_chaos(there))
    base = permissions.for_run(JOBS, claims=claims)
    return SmallestRole(
        namespace,
        (*base, *(permissions.FROM_OUTSIDE if from_outside else inside)),
        ClusterUser(f"system:serviceaccount:{namespace}:{account}") if account else permissions.who_am_i(connection),
    )


def _by_pods(
    connection: ClusterConnection, place: ClusterPlace, about: ClusterAbout, *, has_claim: bool, image: str
) -> Iterator[ClusterFinding]:
    """What only pods can show. Everything is removed before the last line."""
    try:
        facts = look_into(place, image, program="", has_claim=has_claim)
    except UsageError as error:
        yield ClusterFinding("image", str(error), False, "see above")
        return
    version = ".".join(map(str, facts.version))
    yield ClusterFinding("image", f"{image} runs: Python {version} with torch, as user {facts.uid}")
    run_id = f"check-{os.getpid()}-{uuid4().hex[:8]}"
    directory = scratch.make(run_id)
    try:
        run = RunObjects(connection, namespace=place.namespace, run_id=run_id, run_dir=directory)
        try:
            found = []
            if has_claim:
                found.append(volume_check.by_two_pods(run, connection, place, image=image, python=facts.python))
            if NETWORK_CHAOS in about.kinds:
                found.append(chaos_check.takes_up(run, connection))
        finally:
            report = run.close()
        yield from found
        if report.sentences:
            raise ChaoskitError("; ".join(report.sentences))
    finally:
        scratch.remove(run_id)


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


def _channel(place: ClusterPlace) -> ClusterFinding:
    if place.channel == "volume":
        return ClusterFinding("channel", "files on the volume: pods and chaoskit need no connection to each other")
    return ClusterFinding("channel", "TCP: pods connect to chaoskit where it runs")


def _permissions(
    connection: ClusterConnection, namespace: str, about: ClusterAbout, *, claims: bool
) -> Iterator[ClusterFinding]:
    for_claims = permissions.FOR_CLAIMS if claims else ()
    further = (*for_claims, *permissions.FOR_EVICTION, *permissions.for_chaos(about.kinds))
    for rule in (*permissions.BASE, *further):
        lacking = {one.resources[0]: one for one in permissions.missing(connection, namespace, rule)}
        for resource in rule.resources:
            yield _permission(resource, rule.verbs, lacking.get(resource), needed=rule not in further)
    own = next(permissions.missing(connection, namespace, permissions.FOR_TEMPLATE), None)
    told = _permission("jobs", permissions.FOR_TEMPLATE.verbs, own, needed=False)
    yield replace(told, what="permission for --job-template")


def _permission(
    resource: str, verbs: tuple[str, ...], lacking: AccessRule | None, *, needed: bool
) -> ClusterFinding:
    if lacking is None:
        return ClusterFinding(f"permission on {resource}", ", ".join(verbs), needed=needed)
    found = f"not allowed: {', '.join(lacking.verbs)}"
    return ClusterFinding(f"permission on {resource}", found, False, f"add to the Role: {lacking}", needed)


def _jobs(connection: ClusterConnection, namespace: str, about: ClusterAbout) -> Iterator[ClusterFinding]:
    for kind in FURTHER_JOBS:
        if kind not in about.kinds:
            yield ClusterFinding(kind.kind, "not installed; a Job of Kubernetes itself needs no installation")
            continue
        rules = permissions.for_jobs([kind])
        lacking = tuple(each for rule in rules for each in permissions.missing(connection, namespace, rule))
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
