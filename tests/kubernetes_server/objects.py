"""Small objects that a real server accepts."""

from __future__ import annotations

from typing import Any


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"a": "1"}}


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example.invalid/image:1", "command": ["true"]}
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


def job(name: str, **metadata: Any) -> dict[str, Any]:
    template = {"spec": pod(name)["spec"] | {"restartPolicy": "Never"}}
    return {"metadata": {"name": name, **metadata}, "spec": {"template": template, "suspend": True}}


def pod_chaos(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    selector = {"namespaces": [namespace], "labelSelectors": {"chaoskit.dev/run": "r1"}}
    return {
        "apiVersion": "chaos-mesh.org/v1alpha1", "kind": "PodChaos", "metadata": {"name": name},
        "spec": {"action": "pod-kill", "mode": "one", "selector": selector} | spec,
    }  # fmt: skip


def claim(name: str, *modes: str, **metadata: Any) -> dict[str, Any]:
    spec = {"accessModes": list(modes or ("ReadWriteOnce",)), "resources": {"requests": {"storage": "1Mi"}}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}
