"""The objects of a nightly suite in a cluster: a CronJob that runs chaoskit, its settings, and its rights. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.environments.kubernetes import permissions
from chaoskit.environments.kubernetes.api_kinds import CHAOS_FAULTS
from chaoskit.environments.kubernetes.harness_pod import harness_pod
from chaoskit.environments.kubernetes.job_template import of_place
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace

#: Seconds after its time in which a night may still begin, if the cluster was away.
LATE = 3600
#: So many pods of nights that succeeded and that failed stay, with their logs.
KEPT, KEPT_FAILED = 3, 7
#: A CronJob adds eleven letters to its name, and the name of a Job has 63 at most.
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,50}[a-z0-9])?")
_FIELD = re.compile(r"[A-Za-z0-9*/,?-]+")
_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_ROLES = "rbac.authorization.k8s.io"


def night_manifests(
    place: ClusterPlace,
    *,
    name: str,
    schedule: str,
    image: str,
    settings: Mapping[str, str],
    arguments: Sequence[str] = ("nightly",),
    resources: Mapping[str, Mapping[str, str]] | None = None,
    deadline: float | None = None,
    chaos_mesh: bool = False,
) -> tuple[dict[str, Any], ...]:
    """A ServiceAccount, a Role, a RoleBinding, a ConfigMap with the files `settings`, such as chaoskit.toml, and a
    CronJob that runs chaoskit with `arguments` at the times of `schedule`. All have the `name` and lie in the namespace
    of `place`.

    `image`, `resources` and `deadline` (seconds) are those of `harness_pod`. The Role grants what a run needs, with
    `chaos_mesh` also on the kinds of Chaos Mesh. Raises UsageError, naming the argument.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name must be 1 to 52 lower-case letters, digits or '-', and begin with a letter, not {name!r}"
        )
    if not is_schedule(schedule):
        raise UsageError(f"--schedule must be five fields as cron has them, such as '0 2 * * *', not {schedule!r}")
    pod = harness_pod(
        place, image=image, arguments=arguments, service_account=name, settings=name, resources=resources,
        deadline=deadline,
    )  # fmt: skip
    template = of_place(place)
    kind = None if template is None else template.job.api
    base = permissions.for_run(kind, claims=template is not None and template.makes_claims)
    rules = (*base, *permissions.FOR_EVICTION, *permissions.for_chaos(CHAOS_FAULTS if chaos_mesh else ()))
    metadata = {"name": name, "namespace": place.namespace, "labels": {"app.kubernetes.io/name": "chaoskit"}}
    role = {"apiVersion": f"{_ROLES}/v1", "kind": "Role", "metadata": metadata}
    account = {"kind": "ServiceAccount", "name": name, "namespace": place.namespace}
    job = {"backoffLimit": 0, "template": {"metadata": {"labels": metadata["labels"]}, "spec": pod}}
    night = {
        "schedule": schedule,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": LATE,
        "successfulJobsHistoryLimit": KEPT,
        "failedJobsHistoryLimit": KEPT_FAILED,
        "jobTemplate": {"spec": job},
    }
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {**role, "rules": [rule.as_manifest() for rule in rules]},
        {
            **role,
            "kind": "RoleBinding",
            "subjects": [account],
            "roleRef": {"kind": "Role", "name": name, "apiGroup": _ROLES},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(settings)},
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": night},
    )


def is_schedule(text: str) -> bool:
    """Whether a CronJob may take it, as far as its form tells."""
    fields = text.split()
    return text in _MACROS or (len(fields) == 5 and all(map(_FIELD.fullmatch, fields)))
