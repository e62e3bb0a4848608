"""Which pods and containers Chaos Mesh chooses for a fault, as the records that it keeps of them."""

from __future__ import annotations

import random
from typing import Any

from tests.kubernetes_server.server import KubernetesServer

Json = dict[str, Any]
#: Kinds whose targets are containers; those of the others are pods.
OF_CONTAINERS = ("IOChaos", "StressChaos", "TimeChaos", "DNSChaos")


def chosen(server: KubernetesServer, kind: str, obj: Json) -> list[Json]:
    """A record for each target; none at all where one side has no pod."""
    spec = obj["spec"]
    sides = {".": spec} | ({".Target": spec["target"]} if spec.get("target") else {})
    records = []
    for side, where in sides.items():
        pods = _some(_matching(server, where["selector"]), where)
        if not pods:
            return []
        for pod in pods:
            metadata = pod["metadata"]
            names = [f"{metadata['namespace']}/{metadata['name']}"]
            if kind in OF_CONTAINERS:
                first = [pod["spec"]["containers"][0]["name"]]
                names = [f"{names[0]}/{container}" for container in spec.get("containerNames") or first]
            records += [_record(name, side) for name in names]
    return records


def _matching(server: KubernetesServer, selector: Json) -> list[Json]:
    found = []
    for namespace in selector.get("namespaces", ()):
        for pod in server.store.all(server.catalogue.named("pods"), namespace):
            labels = pod["metadata"].get("labels") or {}
            phases = selector.get("podPhaseSelectors")
            phase = (pod.get("status") or {}).get("phase")
            if selector.get("labelSelectors", {}).items() <= labels.items() and (not phases or phase in phases):
                found.append(pod)
    return found


def _some(pods: list[Json], where: Json) -> list[Json]:
    mode, value = where["mode"], int(where.get("value") or 0)
    share = len(pods) * value // 100
    counts = {"all": len(pods), "one": 1, "fixed": value, "fixed-percent": share}
    count = counts[mode] if mode in counts else random.randint(0, share)
    return random.sample(pods, min(count, len(pods)))


def _record(name: str, side: str) -> Json:
    return {"id": name, "selectorKey": side, "phase": "Not Injected", "injectedCount": 0, "recoveredCount": 0}
