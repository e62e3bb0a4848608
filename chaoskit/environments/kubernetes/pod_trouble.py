"""Why a pod does not run, in one sentence: what the cluster says of it in its status."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.environments.kubernetes.kept_off import machines_kept_off

#: Reasons of a container that waits which no waiting mends, and what to do: its image cannot be had,
_NO_IMAGE = {
    "ErrImagePull": "check the name of the image, and that the nodes of the cluster may fetch it (pull-secret)",
    "ImagePullBackOff": "check the name of the image, and that the nodes of the cluster may fetch it (pull-secret)",
    "InvalidImageName": "write the image as REGISTRY/NAME:TAG",
    "ErrImageNeverPull": "the image is on no node of the cluster",
}
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
#: or its command cannot be started.
_NO_START = {
    "CreateContainerConfigError": "see kubectl describe pod",
    "CreateContainerError": "see kubectl describe pod",
    "RunContainerError": "see kubectl describe pod",
}


def hopeless(pod: Mapping[str, Any]) -> str | None:
    """Why the pod will never run, and what to do; None if it runs or may still."""
    return without_image(pod) or without_volume(pod) or without_start(pod)


def without_image(pod: Mapping[str, Any]) -> str | None:
    """The same, if the reason is that its image cannot be had."""
    return _waits_in_vain(pod, _NO_IMAGE)


def without_volume(pod: Mapping[str, Any]) -> str | None:
    """The same, if the reason is that its volume claim is not there."""
    found = _NO_CLAIM.search(_unscheduled(pod) or "")
    if found is None:
        return None
    remedy = "make it, with accessModes [ReadWriteMany], or name another one with --volume"
    return f"there is no volume claim {found[1]!r} in its namespace: {remedy}"


def without_start(pod: Mapping[str, Any]) -> str | None:
    """The same, if the reason is that its command cannot be started in the image."""
    return _waits_in_vain(pod, _NO_START)


def waits_for(pod: Mapping[str, Any]) -> str:
    """Why a pod that may still run does not yet; "" if its status does not say."""
    if (said := _unscheduled(pod)) is not None:
        return f"no node of the cluster takes the pod: {said} {_room(said, machines_kept_off(pod))}"
    for container in _containers(pod.get("status") or {}):
        if reason := ((container.get("state") or {}).get("waiting") or {}).get("reason"):
            return f"its container waits: {reason}"
    return ""


def ended(pod: Mapping[str, Any]) -> str | None:
    """How the container has ended, such as `exit code 137 (OOMKilled)`; None if it has not."""
    status = pod.get("status") or {}
    for container in _containers(status):
        if found := (container.get("state") or {}).get("terminated"):
            reason = found.get("reason")
            return f"exit code {found.get('exitCode')}" + (f" ({reason})" if reason else "")
    if status.get("phase") in ("Failed", "Succeeded"):
        said = _line(status.get("message") or status.get("reason"))
        return f"phase {status['phase']}" + (f" ({said})" if said else "")
    return None


def is_over(pod: Mapping[str, Any], container: str) -> bool:
    """Whether this container has ended, whatever becomes of the others."""
    status = pod.get("status") or {}
    own = [each for each in _containers(status) if each.get("name") == container]
    has_ended = any("terminated" in (each.get("state") or {}) for each in own)
    return has_ended or status.get("phase") in ("Failed", "Succeeded")


def _unscheduled(pod: Mapping[str, Any]) -> str | None:
    """The scheduler's own sentence about a pod that is on no node; None if it is on one."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _line(condition.get("message")) or str(condition.get("reason"))
    return None


def _room(said: str, kept_off: Sequence[str] = ()) -> str:
    """What to do where the scheduler says this of a pod that must not run on some machines."""
    if "PersistentVolumeClaim" in said:
        return "(its volume claim is not bound: kubectl describe pvc)"
    if kept_off:
        return (
            f"(its node was drained, and the pod must not run on {', '.join(kept_off)} again: let the cluster have "
            "another machine with room for it, or leave out drain_node)"
        )
    if "affinity/selector" in said or "taint" in said:
        return "(check node-selector and tolerations in [tool.chaoskit.kubernetes])"
    return "(give the pods smaller resources in [tool.chaoskit.kubernetes], or free some)"


def _waits_in_vain(pod: Mapping[str, Any], remedies: Mapping[str, str]) -> str | None:
    for container in _containers(pod.get("status") or {}):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if (reason := str(waiting.get("reason"))) in remedies:
            return f"{reason} ({_line(waiting.get('message')) or reason}): {remedies[reason]}"
    return None


def _containers(status: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(status.get("containerStatuses") or ())


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())
