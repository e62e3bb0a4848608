"""Why a pod does not run, in one sentence: what the cluster says of it in its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Reasons of a container that waits which no waiting mends, and what to do: its image cannot be had,
_NO_IMAGE = {
    "ErrImagePull": "check the name of the image, and that the nodes of the cluster may fetch it (pull-secret)",
    "ImagePullBackOff": "check the name of the image, and that the nodes of the cluster may fetch it (pull-secret)",
    "InvalidImageName": "write the image as REGISTRY/NAME:TAG",
    "ErrImageNeverPull": "the image is on no node of the cluster",
}
#: or its command cannot be started.
_NO_START = {
    "CreateContainerConfigError": "see kubectl describe pod",
    "CreateContainerError": "see kubectl describe pod",
    "RunContainerError": "see kubectl describe pod",
}


def hopeless(pod: Mapping[str, Any]) -> str | None:
    """Why the pod will never run, and what to do; None if it runs or may still."""
    return without_image(pod) or without_start(pod)


def without_image(pod: Mapping[str, Any]) -> str | None:
    """The same, if the reason is that its image cannot be had."""
    return _waits_in_vain(pod, _NO_IMAGE)


def without_start(pod: Mapping[str, Any]) -> str | None:
    """The same, if the reason is that its command cannot be started in the image."""
    return _waits_in_vain(pod, _NO_START)


def waits_for(pod: Mapping[str, Any]) -> str:
    """Why a pod that may still run does not yet; "" if its status does not say."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"no node of the cluster takes the pod: {_line(condition.get('message')) or condition.get('reason')}"
    for container in _containers(status):
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
