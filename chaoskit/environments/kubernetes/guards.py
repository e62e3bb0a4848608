"""Guards: what is refused before anything of a cluster is touched."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.kubeconfig import ClusterAddress
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.selectors import RunSelector, check_namespace
from chaoskit.errors import UsageError
from chaoskit.validation import check_number, near_miss

#: `prod` in a name, but not in `product`, `producer` or `reproduce`.
_PRODUCTION = re.compile(r"prod(?!uct(?!ion)|uce)", re.IGNORECASE)
#: Namespaces of the cluster itself and of Chaos Mesh: a fault there is a fault of everybody.
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "chaos-mesh")
#: The longest duration of a fault in seconds: so long it lasts at most if chaoskit dies.
LONGEST_FAULT = 600.0


@dataclass(frozen=True)
class PreviewedPod:
    """A pod that a fault would be able to hit."""

    name: str
    uid: str
    phase: str
    node: str


def looks_like_production(names: Iterable[str]) -> str | None:
    """The first of the names of a cluster that looks like production, if any."""
    return next((name for name in names if _PRODUCTION.search(name)), None)


def check_not_production(address: ClusterAddress, *, i_mean: str | None = None) -> None:
    """Raises UsageError for a cluster that looks like production by its context, its name or its server, unless
    `i_mean` repeats the context."""
    named = address.context or "in-cluster"
    if i_mean is not None and i_mean != named:
        raise UsageError(f"--i-mean {i_mean}: the context is {named!r}: repeat exactly that name, or leave it out")
    if i_mean is None and (name := looks_like_production(address.names)) is not None:
        raise UsageError(
            f"context {named!r} looks like production ({name!r}): use a staging cluster, or add --i-mean {named}"
        )


def check_allowed_namespace(namespace: str, allowed: Collection[str]) -> str:
    """The namespace, if it is one of those where faults are allowed. Raises UsageError for any other."""
    check_namespace("kubernetes", "namespace", namespace)
    if namespace in SYSTEM_NAMESPACES:
        raise UsageError(f"namespace {namespace!r} is one of the cluster itself: use a namespace of your own")
    if namespace not in allowed:
        others = near_miss(namespace, allowed) if allowed else "; none is yet"
        raise UsageError(f"namespace {namespace!r} is not one where faults are allowed{others}")
    return namespace


def check_duration(action: str, seconds: float, *, longest: float = LONGEST_FAULT) -> str:
    """The duration of a fault as Chaos Mesh takes it. Raises UsageError if it is none, or longer than `longest`
    seconds: the fault would outlive a chaoskit that dies."""
    check_number(action, "duration", seconds, over=0, most=longest)
    return f"{max(1, round(seconds * 1000))}ms"


def preview(connection: ClusterConnection, selector: RunSelector) -> tuple[PreviewedPod, ...]:
    """Every pod that the selector matches now, by name. Raises ForeignObject if the server answers with a pod that
    lacks the labels of the run, ClusterError if it does not answer."""
    pods = [
        PreviewedPod(
            name=str(manifest["metadata"]["name"]),
            uid=str(manifest["metadata"]["uid"]),
            phase=str((manifest.get("status") or {}).get("phase") or "Unknown"),
            node=str((manifest.get("spec") or {}).get("nodeName") or ""),
        )
        for manifest in listed(connection, PODS, selector).manifests
    ]
    return tuple(sorted(pods, key=lambda pod: pod.name))
