"""Where the objects are kept: one counter of resource versions, and every change since the last compaction."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.kubernetes_server.refusals import expired
from tests.kubernetes_server.resources import Resource

Json = dict[str, Any]
Key = tuple[str, str]  # namespace and name


@dataclass(frozen=True)
class Change:
    """One object before and after a change; None where there was none, or is none any more."""

    version: int
    resource: tuple[str, str]
    namespace: str
    before: Json | None
    after: Json | None


class Store:
    """Objects by resource, namespace and name. `changed` is held by whoever reads and then writes."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = 1
        self.compacted = 0
        self.changes: list[Change] = []
        self._objects: dict[tuple[str, str], dict[Key, Json]] = {}

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """A copy of the object."""
        with self.changed:
            return copy.deepcopy(self._objects.get(resource.key, {}).get((namespace, name)))

    def all(self, resource: Resource, namespace: str = "") -> list[Json]:
        """The objects of a namespace, or of all; in the order of their names. They are not to be changed."""
        with self.changed:
            found = self._objects.get(resource.key, {})
            return [found[key] for key in sorted(found) if namespace in ("", key[0])]

    def put(self, resource: Resource, obj: Json) -> Json:
        """Store an object in place of the one of its name, under the next resource version.

        Neither what is given nor what comes back may be changed afterwards: the store keeps it.
        """
        with self.changed:
            key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            objects = self._objects.setdefault(resource.key, {})
            before = objects.get(key)
            self.version += 1
            stored = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
            objects[key] = stored
            self._note(Change(self.version, resource.key, key[0], before, stored))
            return stored

    def remove(self, resource: Resource, namespace: str, name: str) -> Json:
        """Take an object out; gives it with the resource version of its removal."""
        with self.changed:
            before = self._objects[resource.key].pop((namespace, name))
            self.version += 1
            last = before | {"metadata": before["metadata"] | {"resourceVersion": str(self.version)}}
            self._note(Change(self.version, resource.key, namespace, last, None))
            return last

    def everything(self) -> Iterator[tuple[tuple[str, str], Json]]:
        """All objects with the keys of their resources."""
        with self.changed:
            yield from [(key, obj) for key, objects in self._objects.items() for obj in objects.values()]

    def compact(self) -> None:
        """Forget the past: a watch from an older resource version is refused from now on."""
        with self.changed:
            self.compacted = self.version
            self.changes.clear()
            self.changed.notify_all()

    def since(self, version: int, wanted: Callable[[Change], bool]) -> list[Change]:
        """The changes after a version; raises Refusal (410) where they are compacted."""
        with self.changed:
            if version < self.compacted:
                raise expired(f"too old resource version: {version} ({self.compacted})")
            newest = len(self.changes)
            while newest and self.changes[newest - 1].version > version:
                newest -= 1
            return [change for change in self.changes[newest:] if wanted(change)]

    def _note(self, change: Change) -> None:
        self.changes.append(change)
        self.changed.notify_all()
