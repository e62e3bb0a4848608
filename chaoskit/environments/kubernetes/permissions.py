"""What a run in a cluster must be allowed to do, which of it is missing, and the smallest Role that grants it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from chaoskit.environments.kubernetes.access_rule import AccessRule
from chaoskit.environments.kubernetes.api_kinds import (
    CHAOS_FAULTS,
    CHAOS_MESH,
    CLAIMS,
    FURTHER_JOBS,
    JOBS,
    ApiKind,
)
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.team_jobs.kinds import KINDS
from chaoskit.errors import UsageError

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_ROLES = "rbac.authorization.k8s.io"
#: What every run asks for, and no more: a test compares it with the requests of whole runs. Objects are found again by
#: `get` where the answer to `create` or `delete` was lost.
_OWN = ("create", "get", "list", "delete")
_PODS = (AccessRule("", ("pods", "services", "configmaps"), _OWN), AccessRule("", ("pods/log",), ("get",)))
BASE = (*_PODS, AccessRule("batch", ("jobs",), ("list",)))  # a run looks whether it has left some
#: What a run with a job template needs beside that, and what both need. `patch` suspends a job.
FOR_TEMPLATE = AccessRule("batch", ("jobs",), ("create", "get", "delete", "patch"))
_JOB_VERBS = (*_OWN, "patch")
WITH_TEMPLATE = (*_PODS, AccessRule("batch", ("jobs",), _JOB_VERBS))
#: What is asked of what the controller of a job makes, which has the labels of the run: it is removed with the job.
_MADE_VERBS = ("list", "delete")
#: What a run needs as well whose pods make volume claims.
FOR_CLAIMS = (AccessRule(CLAIMS.group, (CLAIMS.plural,), _MADE_VERBS),)
#: What the eviction of a node needs as well; without it, evictions are skipped.
FOR_EVICTION = (AccessRule("", ("pods/eviction",), ("create",)),)
#: What somebody needs as well who starts chaoskit in a pod, and fetches its files.
FROM_OUTSIDE = (AccessRule("", ("pods/exec",), ("create", "get")),)
#: What is asked of each kind of Chaos Mesh that runs make: `patch` forces a fault to go.
_CHAOS_VERBS = (*_OWN, "watch", "patch")


def for_chaos(there: Iterable[ApiKind]) -> tuple[AccessRule, ...]:
    """What those of the kinds that runs make need."""
    plurals = tuple(kind.plural for kind in CHAOS_FAULTS if kind in set(there))
    return (AccessRule(CHAOS_MESH, plurals, _CHAOS_VERBS),) if plurals else ()


def for_jobs(there: Iterable[ApiKind]) -> tuple[AccessRule, ...]:
    """The permissions on those further kinds of job that are there and that runs make."""
    made = {kind.api for kind in KINDS}.intersection(there)
    return tuple(AccessRule(kind.group, (kind.plural,), _JOB_VERBS) for kind in FURTHER_JOBS if kind in made)


def for_run(job: ApiKind | None = None, *, claims: bool = False) -> tuple[AccessRule, ...]:
    """The permissions that a run needs, with a job template of the kind `job` or without; with `claims`, for a template
    that makes volume claims."""
    for_claims = FOR_CLAIMS if claims else ()
    if job is None:
        return BASE
    if job == JOBS:
        return (*WITH_TEMPLATE, *for_claims)
    kinds = [kind for known in KINDS if known.api == job for kind in known.makes]
    made = (AccessRule(kind.group, (kind.plural,), _MADE_VERBS) for kind in kinds)
    return (*BASE, *for_jobs([job]), *made, *for_claims)


def missing(connection: ClusterConnection, namespace: str, rule: AccessRule) -> Iterator[AccessRule]:
    """Ask the server about each verb on each resource; a rule for each resource that lacks some. Raises
    ClusterError."""
    for resource in rule.resources:
        asked = [AccessRule(rule.group, (resource,), (verb,)) for verb in rule.verbs]
        verbs = tuple(one.verbs[0] for one in asked if not _is_allowed(connection, namespace, one))
        if verbs:
            yield AccessRule(rule.group, (resource,), verbs)


@cache
def must_have(
    connection: ClusterConnection, namespace: str, *, job: ApiKind | None = None, claims: bool = False
) -> None:
    """Look once, before anything is made, whether a run has every permission that it will need; a run with a job
    template needs those on the kind `job`, too, and with `claims` those on volume claims. A run that cannot list its
    objects cannot remove them. Raises UsageError with each rule that is missing, ClusterError if the server fails."""
    lacking = [one for rule in for_run(job, claims=claims) for one in missing(connection, namespace, rule)]
    if lacking:
        raise UsageError(
            f"permissions are missing in namespace {namespace}: add to a Role of the namespace: "
            f"{', '.join(map(str, lacking))} (chaoskit kubernetes check --role prints the whole Role)"
        )


@cache
def no_eviction(connection: ClusterConnection, namespace: str) -> str | None:
    """Why pods cannot be evicted there; None if they can. Asked once in a process. Raises ClusterError."""
    lacking = [one for rule in FOR_EVICTION for one in missing(connection, namespace, rule)]
    if not lacking:
        return None
    return f"it needs a permission in namespace {namespace}: add to a Role: {', '.join(map(str, lacking))}"


def _is_allowed(connection: ClusterConnection, namespace: str, one: AccessRule) -> bool:
    resource, _, subresource = one.resources[0].partition("/")
    attributes = {
        "namespace": namespace, "group": one.group, "resource": resource, "subresource": subresource,
        "verb": one.verbs[0],
    }  # fmt: skip
    question = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    answer = connection.ask(_REVIEWS, question, what="ask for the permissions of this user")
    return bool((answer.get("status") or {}).get("allowed"))


@dataclass(frozen=True)
class ClusterUser:
    """Who the server says we are; `name` is empty if it does not say."""

    name: str = ""

    @property
    def subject(self) -> dict[str, str]:
        """As an entry of `subjects` in a RoleBinding."""
        kind, _, rest = self.name.partition("system:serviceaccount:")
        namespace, _, account = rest.partition(":")
        if not kind and account:
            return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        return {"kind": "User", "name": self.name or "NAME-OF-YOUR-USER", "apiGroup": _ROLES}


def who_am_i(connection: ClusterConnection) -> ClusterUser:
    """Ask the server. One older than 1.28 does not say. Raises ClusterError."""
    question = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = connection.ask(_WHO, question, what="ask for the name of this user")
    except ClusterError as error:
        if error.status not in (403, 404, 405):
            raise
        return ClusterUser()
    told: Mapping[str, Any] = (answer.get("status") or {}).get("userInfo") or {}
    return ClusterUser(str(told.get("username") or ""))


@dataclass(frozen=True)
class SmallestRole:
    """The Role that grants `rules` in a namespace, and its binding to a user."""

    namespace: str
    rules: Sequence[AccessRule]
    user: ClusterUser = field(default_factory=ClusterUser)
    name: str = "chaoskit"

    def as_yaml(self) -> str:
        """Both manifests, for `kubectl apply -f`."""
        yaml = importlib.import_module("yaml")  # it comes with the client
        metadata = {"name": self.name, "namespace": self.namespace}
        role = {
            "apiVersion": f"{_ROLES}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [rule.as_manifest() for rule in self.rules],
        }
        binding = {
            "apiVersion": f"{_ROLES}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [self.user.subject],
            "roleRef": {"kind": "Role", "name": self.name, "apiGroup": _ROLES},
        }
        shown = {"sort_keys": False, "default_flow_style": None, "width": 120}
        return f"{yaml.safe_dump(role, **shown)}---\n{yaml.safe_dump(binding, **shown)}"
