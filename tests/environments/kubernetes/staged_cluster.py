"""A cluster as the check sees it: what it serves, and what a user may do, as a test wishes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import CHAOS_FAULTS, CHAOS_MESH, FURTHER_JOBS
from tests.environments.kubernetes.scripted_server import Script, Scripted, scripted, status

CHAOS = tuple(kind.kind for kind in CHAOS_FAULTS)
JOBS = tuple(kind.kind for kind in FURTHER_JOBS)


def _everything(group: str, resource: str, verb: str) -> bool:
    return True


@dataclass(frozen=True)
class StagedCluster:
    """`kinds` are those that it serves; `chaos_version` is that of Chaos Mesh; `allows` decides on each permission;
    `refusals` are what it says to new objects, by the plural of their kind, and `answers` to anything, by its path."""

    version: str = "v1.36.0"
    kinds: tuple[str, ...] = (*CHAOS, *JOBS)
    chaos_version: str = "v1alpha1"
    namespace: int = 200
    allows: Callable[[str, str, str], bool] = _everything
    quotas: Any = ()
    user: str | None = "chaosbot"
    answers: dict[str, Scripted] = field(default_factory=dict)
    refusals: dict[str, Scripted] = field(default_factory=dict)

    def serve(self) -> AbstractContextManager[Script]:
        """The server."""
        return scripted(*[self._answer] * 1000)

    def _answer(self, request: tuple[str, str, Any]) -> Scripted:
        method, url, body = request
        path = url.partition("?")[0]
        if path in self.answers:
            return self.answers[path]
        if path == "/version":
            return Scripted(body={"gitVersion": self.version})
        known = [kind for kind in (*CHAOS_FAULTS, *FURTHER_JOBS) if kind.kind in self.kinds]
        versions = {kind.group: self.chaos_version if kind.group == CHAOS_MESH else kind.version for kind in known}
        if path == "/apis":
            groups = [{"name": name, "versions": [{"version": version}]} for name, version in versions.items()]
            return Scripted(body={"kind": "APIGroupList", "groups": groups})
        for group, version in versions.items():
            if path == f"/apis/{group}/{version}":
                return Scripted(body={"resources": [{"name": kind.plural} for kind in known if kind.group == group]})
        if path == "/api/v1/namespaces/staging":
            said = 'namespaces "staging" is not there'
            return Scripted(body={}) if self.namespace == 200 else status(self.namespace, "NotFound", said)
        if path.endswith("/resourcequotas"):
            said = 'User "u" cannot list resource "resourcequotas" in API group ""'
            return Scripted(body={"items": list(self.quotas)}) if self.quotas is not None else status(403, "F", said)
        if method == "POST" and "dryRun=All" in url and isinstance(body, dict) and "metadata" in body:
            plural = path.rpartition("/")[2]
            metadata = {**body["metadata"], "uid": "uid", "namespace": "staging"}
            return self.refusals.get(plural, Scripted(201, {**body, "metadata": metadata}))
        if path.endswith("/selfsubjectreviews") and self.user is not None:
            return Scripted(201, {"status": {"userInfo": {"username": self.user}}})
        if path.endswith("/selfsubjectaccessreviews") and method == "POST":
            asked = body["spec"]["resourceAttributes"]
            assert asked["namespace"] == "staging"
            resource = "/".join(filter(None, [asked["resource"], asked.get("subresource")]))
            return Scripted(201, {"status": {"allowed": self.allows(asked.get("group", ""), resource, asked["verb"])}})
        return status(404, "NotFound", f"nothing at {path}")
