"""The pod in which chaoskit itself runs in a cluster. A pure function."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.environments.kubernetes.job_template import of_place
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace
from chaoskit.validation import check_number

#: The name of the container in which chaoskit runs, and the directory that is its home.
HARNESS, HOME = "chaoskit", "/home/chaoskit"
#: Where the files of a ConfigMap with settings are.
SETTINGS = "/etc/chaoskit"
#: Seconds that chaoskit has to remove what its runs have made once its pod is deleted.
GRACE = 120
_ACCOUNT = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


def harness_pod(
    place: ClusterPlace,
    *,
    image: str,
    arguments: Sequence[str],
    service_account: str,
    settings: str = "",
    resources: Mapping[str, Mapping[str, str]] | None = None,
    deadline: float | None = None,
) -> dict[str, Any]:
    """The specification of a pod, or of the template of a Job, in which chaoskit runs with these `arguments`.

    `image` has chaoskit and the client of Kubernetes. The pod has the claim of `place` at `place.path`, the token of
    `service_account`, and `POD_IP`, the address at which the nodes of a job reach it. It goes where the nodes of a job
    may go, with the same pull secret. `settings` names a ConfigMap: chaoskit starts in a directory with its files, such
    as chaoskit.toml. `resources` are its own, since those of `place` are for the job. After `deadline` seconds, at
    least 1, the cluster ends it. Raises UsageError, naming the argument.
    """
    if not image:
        raise UsageError("harness_pod: image must be the name of an image that has chaoskit")
    if not _ACCOUNT.fullmatch(service_account):
        raise UsageError(
            f"harness_pod: service_account must be the name of a service account (lower-case letters, digits, '-' or "
            f"'.'), not {service_account!r}"
        )
    if place.path.rstrip("/") in ("", "/tmp", HOME, SETTINGS):
        raise UsageError(f"harness_pod: the volume cannot be at {place.path}: chaoskit has files of its own there")
    if deadline is not None:
        check_number("harness_pod", "deadline", deadline, least=1)
    template = of_place(place)
    place = place if template is None else template.place(place)
    container = {
        "name": HARNESS,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["chaoskit", *(as_written(word) for word in arguments)],
        "workingDir": SETTINGS if settings else HOME,
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "HOME", "value": HOME},
        ],
        **({"resources": {key: dict(each) for key, each in resources.items()}} if resources else {}),
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [
            {"name": "runs", "mountPath": place.path},
            {"name": "home", "mountPath": HOME},
            {"name": "tmp", "mountPath": "/tmp"},
            *([{"name": "settings", "mountPath": SETTINGS, "readOnly": True}] if settings else []),
        ],
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE,
        **({"activeDeadlineSeconds": int(deadline)} if deadline is not None else {}),
        "serviceAccountName": service_account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [
            {"name": "runs", "persistentVolumeClaim": {"claimName": place.claim}},
            {"name": "home", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            *([{"name": "settings", "configMap": {"name": settings}}] if settings else []),
        ],
        **({"nodeSelector": dict(place.node_selector)} if place.node_selector else {}),
        **({"tolerations": [dict(each) for each in place.tolerations]} if place.tolerations else {}),
        **({"imagePullSecrets": [{"name": place.pull_secret}]} if place.pull_secret else {}),
    }


def as_written(word: str) -> str:
    """A word of a command that the cluster hands on as it is: it would put the value of a variable for `$(NAME)`."""
    return word.replace("$", "$$")
