"""What goes with its owner: dependents of owners that are gone or going, and the contents of namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.kubernetes_server.lifecycle import FOREGROUND, NAMESPACES, ORPHAN, Deletion, Lifecycle
from tests.kubernetes_server.resources import Catalogue, Resource
from tests.kubernetes_server.store import Store

Json = dict[str, Any]


class GarbageCollector:
    """Runs after each change, until nothing is left to do."""

    def __init__(self, store: Store, catalogue: Catalogue, lifecycle: Lifecycle) -> None:
        self._store = store
        self._catalogue = catalogue
        self._lifecycle = lifecycle
        self._paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Collect nothing for a while: that of a real server runs seconds behind."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            self.collect()

    def collect(self) -> None:
        with self._store.changed:
            while not self._paused and sum(self._collect_one(resource, obj) for resource, obj in self._suspects()):
                pass

    def _suspects(self) -> list[tuple[Resource, Json]]:
        """What is deleted, or has owners."""
        marks = {"deletionTimestamp", "ownerReferences"}
        return [(resource, obj) for resource, obj in self._all() if marks & obj["metadata"].keys()]

    def _all(self) -> list[tuple[Resource, Json]]:
        by_key = {resource.key: resource for resource in self._catalogue}
        return [(by_key[key], obj) for key, obj in self._store.everything() if key in by_key]

    def _collect_one(self, resource: Resource, seen: Json) -> bool:
        """Do what is to be done with one object; whether there was something."""
        metadata = seen["metadata"]
        obj = self._store.get(resource, metadata.get("namespace", ""), metadata["name"])
        if obj is None or obj["metadata"]["uid"] != metadata["uid"]:
            return False
        deleted, finalizers = "deletionTimestamp" in metadata, metadata.get("finalizers") or ()
        if deleted and ORPHAN in finalizers:
            return self._let_go_of_dependents(resource, obj)
        if deleted and FOREGROUND in finalizers:
            return self._delete_dependents(resource, obj)
        if deleted and resource.key == NAMESPACES:
            return self._empty(resource, obj)
        return self._loses_owners(resource, obj)

    def _dependents(self, uid: str) -> list[tuple[Resource, Json, Json]]:
        return [
            (resource, obj, reference)
            for resource, obj in self._all()
            for reference in obj["metadata"].get("ownerReferences") or ()
            if reference["uid"] == uid
        ]

    def _let_go_of_dependents(self, resource: Resource, owner: Json) -> bool:
        uid = owner["metadata"]["uid"]
        for kind, dependent, _ in self._dependents(uid):
            self._drop_owners(kind, dependent, {uid})
        self._drop_finalizer(resource, owner, ORPHAN)
        return True

    def _delete_dependents(self, resource: Resource, owner: Json) -> bool:
        done, blocked = False, False
        for kind, dependent, reference in self._dependents(owner["metadata"]["uid"]):
            if "deletionTimestamp" not in dependent["metadata"]:
                done |= self._delete(kind, dependent, Deletion(policy="Foreground"))
            blocked |= bool(reference.get("blockOwnerDeletion")) and self._is_there(kind, dependent)
        if not blocked:
            self._drop_finalizer(resource, owner, FOREGROUND)
        return done or not blocked

    def _empty(self, resource: Resource, namespace: Json) -> bool:
        name = namespace["metadata"]["name"]
        inside = [(kind, obj) for kind, obj in self._all() if obj["metadata"].get("namespace") == name]
        if not inside and not namespace["metadata"].get("finalizers"):
            self._store.remove(resource, "", name)
            return True
        waiting = [(kind, obj) for kind, obj in inside if "deletionTimestamp" not in obj["metadata"]]
        return sum(self._delete(kind, obj, Deletion(policy="Background")) for kind, obj in waiting) > 0

    def _loses_owners(self, resource: Resource, obj: Json) -> bool:
        references = obj["metadata"].get("ownerReferences") or []
        namespaces = ("", obj["metadata"].get("namespace", ""))
        there = {
            other["metadata"]["uid"] for _, other in self._all() if other["metadata"].get("namespace", "") in namespaces
        } if references else set()  # fmt: skip
        absent = {reference["uid"] for reference in references} - there
        if not absent:
            return False
        if len(absent) < len(references):
            self._drop_owners(resource, obj, absent)
            return True
        return "deletionTimestamp" not in obj["metadata"] and self._delete(resource, obj, Deletion(policy="Background"))

    def _delete(self, resource: Resource, obj: Json, how: Deletion) -> bool:
        metadata = obj["metadata"]
        current = self._store.get(resource, metadata.get("namespace", ""), metadata["name"])
        if current is None:
            return False
        self._lifecycle.delete(resource, current, how)
        return True

    def _is_there(self, resource: Resource, obj: Json) -> bool:
        return self._store.get(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) is not None

    def _drop_owners(self, resource: Resource, obj: Json, uids: set[str]) -> None:
        metadata = obj["metadata"]
        before = self._lifecycle.existing(resource, metadata.get("namespace", ""), metadata["name"])
        kept = [one for one in metadata["ownerReferences"] if one["uid"] not in uids]
        others = {key: value for key, value in before["metadata"].items() if key != "ownerReferences"}
        after = before | {"metadata": others | ({"ownerReferences": kept} if kept else {})}
        self._lifecycle.replace(resource, before, after)

    def _drop_finalizer(self, resource: Resource, obj: Json, finalizer: str) -> None:
        metadata = obj["metadata"]
        before = self._lifecycle.existing(resource, metadata.get("namespace", ""), metadata["name"])
        kept = [one for one in metadata["finalizers"] if one != finalizer]
        self._lifecycle.replace(resource, before, before | {"metadata": before["metadata"] | {"finalizers": kept}})
