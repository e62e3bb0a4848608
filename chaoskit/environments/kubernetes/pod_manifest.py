"""The manifests of a run: one headless service, and one pod for each node. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import PODS, SERVICES
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace

#: The role of a pod that is a node of the job, and of the service that gives nodes their names.
NODE_ROLE, NAMES_ROLE = "node", "names"
#: The name of the container in which the job runs.
CONTAINER = "trainer"
#: torch's data loaders pass tensors through /dev/shm, of which a pod has 64 MB otherwise.
SHM = "2Gi"
#: Seconds after which the cluster ends a pod whatever happens: one whose image never comes has no agent that could.
LONGEST_POD = 24 * 3600
#: In the directory of a run, the word that shows that an agent belongs to it. It is on the volume, and in no manifest.
TOKEN = "agents.token"
#: Resources that every machine has.
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
#: Where a pod of the check has the volume.
_VOLUME = "/chaoskit-volume"
_AGENT = Path("environments", "agents", "agent.py")
#: Seconds that a container has to end by itself in which no rank runs.
_GRACE = 5


@dataclass(frozen=True)
class VolumePart:
    """A directory of the volume of all runs, which a pod has at the same path as chaoskit."""

    path: Path
    read_only: bool = False


def names_service(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The headless service by which the pods with these labels find each other: `node0.NAME`. A node has its name
    before it is ready, since the ranks look each other up as they start."""
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(labels)},
    }


def node_pod(
    name: str,
    *,
    node: str,
    service: str,
    place: ClusterPlace,
    image: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    parts: Sequence[VolumePart],
) -> dict[str, Any]:
    """The pod of a node. It runs `command` in the image, and nothing of the image is changed; `parts` are what it has
    of the volume. Raises UsageError for a part that is not on the volume."""
    return _pod(
        name,
        place,
        {
            "name": CONTAINER,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": list(command),
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            **({"resources": {key: dict(each) for key, each in place.resources.items()}} if place.resources else {}),
            "volumeMounts": [*(mount(place, part) for part in parts), {"name": "shm", "mountPath": "/dev/shm"}],
        },
        hostname=node,
        subdomain=service,
        terminationGracePeriodSeconds=place.grace,
        volumes=[
            _volume_of(place),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM}},
        ],
    )


def agent_command(python: str, package: Path, *, address: str, pod: str, run_dir: Path) -> list[str]:
    """The command of a pod: the agent of `package`, which connects to chaoskit at `address`."""
    return [python, "-I", "-S", str(package / _AGENT), address, pod, str(run_dir / TOKEN)]


def look_pod(
    name: str, *, place: ClusterPlace, image: str, command: Sequence[str], has_claim: bool = True
) -> dict[str, Any]:
    """A pod that says what its image is like, and ends. It has the claim, only to show that pods can have it."""
    container: dict[str, Any] = {"name": CONTAINER, "image": image, "imagePullPolicy": "IfNotPresent"}
    container |= {"command": list(command)} | _without_devices(place)
    if not has_claim:
        return _pod(name, place, container)
    container["volumeMounts"] = [{"name": "runs", "mountPath": _VOLUME, "readOnly": True}]
    return _pod(name, place, container, volumes=[_volume_of(place)])


def volume_pod(
    name: str, *, place: ClusterPlace, image: str, python: str, script: str, words: Sequence[str],
    apart: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """A pod that runs a script in the claim's volume and ends. `apart` is an affinity term: it runs on no such
    machine."""
    return _pod(
        name,
        place,
        {
            "name": CONTAINER,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": [python, "-I", "-S", "-c", script, *words],
            "workingDir": _VOLUME,
            **_without_devices(place),
            "volumeMounts": [{"name": "runs", "mountPath": _VOLUME}],
        },
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [dict(apart)]}},
        volumes=[_volume_of(place)],
    )


def _pod(name: str, place: ClusterPlace, container: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": _GRACE,
            "activeDeadlineSeconds": LONGEST_POD,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [dict(container)],
            **more,
            **({"nodeSelector": dict(place.node_selector)} if place.node_selector else {}),
            **({"tolerations": [dict(each) for each in place.tolerations]} if place.tolerations else {}),
            **({"imagePullSecrets": [{"name": place.pull_secret}]} if place.pull_secret else {}),
            **({"serviceAccountName": place.service_account} if place.service_account else {}),
        },
    }


def _volume_of(place: ClusterPlace) -> dict[str, Any]:
    return {"name": "runs", "persistentVolumeClaim": {"claimName": place.claim}}


def _without_devices(place: ClusterPlace) -> dict[str, Any]:
    """The resources of a pod that runs no rank: a quota may want them, and no GPU is held for it."""
    kept = {
        key: {name: str(amount) for name, amount in each.items() if name in _COMPUTE}
        for key, each in place.resources.items()
    }
    return {"resources": kept} if any(kept.values()) else {}


def mount(place: ClusterPlace, part: VolumePart, *, volume: str = "runs") -> dict[str, Any]:
    """The mount of a part in a container whose pod has the volume under that name. Raises UsageError."""
    below = on_volume(place, part.path)
    return {
        "name": volume,
        "mountPath": str(part.path),
        **({"subPath": below} if below else {}),
        **({"readOnly": True} if part.read_only else {}),
    }


def on_volume(place: ClusterPlace, path: Path) -> str:
    """Where on the volume a path of this machine is; "" for the whole volume. Raises UsageError if it is elsewhere."""
    volume = Path(place.path)
    if volume != path and volume not in path.parents:
        raise UsageError(
            f"{path} is not on the volume of the claim {place.claim!r}, which this machine has at {place.path}: store "
            f"runs there, with --dir {volume / 'chaoskit'}"
        )
    below = str(path.relative_to(volume))
    return "" if below == "." else below
