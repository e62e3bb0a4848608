"""The API from within: what the scheduler, the kubelet and the controllers of our own server ask of it.

Their calls meet all rules of the API, its admission and its garbage collection. They go past HTTP: no fault of a test
and no absence of the server meets them, and they are not among the calls that a test counts.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from tests.kubernetes_server.api import Api
from tests.kubernetes_server.calls import User, parse
from tests.kubernetes_server.lifecycle import now
from tests.kubernetes_server.patches import MERGE
from tests.kubernetes_server.refusals import Refusal
from tests.kubernetes_server.resources import Catalogue, Resource
from tests.kubernetes_server.store import Store

Json = dict[str, Any]


class ControlPlane:
    """The calls of one component, which is a user with all rights. Each raises Refusal."""

    def __init__(self, store: Store, catalogue: Catalogue, api: Api, *, component: str) -> None:
        self._store, self._catalogue, self._api = store, catalogue, api
        self._component = component
        self._token = f"{component}-{uuid.uuid4().hex}"
        user = User(f"system:{component}", ("system:masters", "system:authenticated"))
        api.authorizer.users[self._token] = user

    @property
    def version(self) -> int:
        return self._store.version

    def wait(self, seen: int, *, timeout: float | None = None) -> int:
        """Wait until the store has changed since a version; gives the newest."""
        with self._store.changed:
            if self._store.version == seen:
                self._store.changed.wait(timeout)
            return self._store.version

    def wake(self) -> None:
        """End the waiting of everybody."""
        with self._store.changed:
            self._store.changed.notify_all()

    def knows(self, plural: str, *, group: str = "") -> bool:
        """Whether the server has a resource: those of custom definitions may not be there."""
        return any((one.group, one.plural) == (group, plural) for one in self._catalogue)

    def all(self, plural: str, namespace: str = "", *, group: str = "") -> list[Json]:
        """The objects of a resource. They are not to be changed."""
        return self._store.all(self._catalogue.named(plural, group), namespace)

    def get(self, plural: str, namespace: str, name: str, *, group: str = "") -> Json | None:
        return self._store.get(self._catalogue.named(plural, group), namespace, name)

    def current(self, obj: Json, plural: str, *, group: str = "") -> Json | None:
        """An object as it is now; None where it is gone, or where another has its name."""
        metadata = obj["metadata"]
        found = self.get(plural, metadata.get("namespace", ""), metadata["name"], group=group)
        return found if found and found["metadata"]["uid"] == metadata["uid"] else None

    def create(self, plural: str, body: Json, *, namespace: str = "", group: str = "") -> Json:
        return self._ask("POST", self._path(plural, group, namespace), body)

    def patch(self, plural: str, obj: Json, change: Json, *, group: str = "", status: bool = False) -> Json | None:
        """Merge a change into an object, or into its status; None where it is gone, or where another has its name."""
        metadata = obj["metadata"]
        path = self._path(plural, group, metadata.get("namespace", ""), metadata["name"])
        changed = change | {"metadata": change.get("metadata", {}) | {"uid": metadata["uid"]}}
        try:
            return self._ask("PATCH", path + ("/status" if status else ""), changed)
        except Refusal as refusal:
            if refusal.reason in ("NotFound", "Conflict"):
                return None
            raise

    def delete(
        self, plural: str, obj: Json, *, group: str = "", grace: int | None = None, policy: str = "Background"
    ) -> None:
        """Delete an object; does nothing where it is gone, or where another has its name."""
        metadata = obj["metadata"]
        options: Json = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": policy}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            self._ask("DELETE", self._path(plural, group, metadata.get("namespace", ""), metadata["name"]), options)
        except Refusal as refusal:
            if refusal.reason not in ("NotFound", "Conflict"):
                raise

    def event(self, obj: Json, reason: str, message: str, *, warning: bool = False) -> None:
        """Tell of an object in an Event, as long as its namespace takes one."""
        metadata = obj["metadata"]
        about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"],
                 "namespace": metadata["namespace"], "uid": metadata["uid"]}  # fmt: skip
        body = {"metadata": {"name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}"}, "involvedObject": about,
                "reason": reason, "message": message, "type": "Warning" if warning else "Normal", "count": 1,
                "source": {"component": self._component}, "reportingComponent": self._component,
                "firstTimestamp": now(), "lastTimestamp": now()}  # fmt: skip
        try:
            self.create("events", body, namespace=metadata["namespace"])
        except Refusal as refusal:
            if refusal.code not in (403, 404):  # of a namespace that is going or gone
                raise

    def _path(self, plural: str, group: str, namespace: str, name: str = "") -> str:
        resource: Resource = self._catalogue.named(plural, group)
        parts = ["apis", group, resource.version] if group else ["api", resource.version]
        parts += ["namespaces", namespace] if resource.namespaced else []
        return "/" + "/".join([*parts, plural, *([name] if name else [])])

    def _ask(self, method: str, path: str, body: Json) -> Json:
        headers = {"authorization": f"Bearer {self._token}"}
        if method == "PATCH":
            headers["content-type"] = MERGE
        call = parse(-1, method, path, headers, json.dumps(body).encode(), known=self._catalogue)
        assert call is not None, path
        answer = self._api.answer(call).body
        assert isinstance(answer, dict)
        return answer
