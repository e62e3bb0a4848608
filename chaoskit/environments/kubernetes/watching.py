"""`ObjectWatch`: what happens to the objects of a run, each change once, whatever happens to the connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chaoskit.environments.kubernetes.api_kinds import ApiKind
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.listing import listed, must_select
from chaoskit.environments.kubernetes.selectors import RunSelector

#: Seconds after which the server ends a watch, and the next one begins.
_WATCH_LIMIT = 120.0
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
_GONE = 410


@dataclass(frozen=True)
class ObjectChange:
    """An object was added, changed or deleted; `manifest` is the last that is known of it."""

    what: Literal["added", "changed", "deleted"]
    manifest: Mapping[str, Any]

    @property
    def uid(self) -> str:
        """The UID of the object."""
        return str(self.manifest["metadata"]["uid"])


class ObjectWatch:
    """Lists the selected objects of one kind, and then watches them.

    A watch that breaks off continues where it ended. If that is too long ago for the server (410), the objects are
    listed again, and what changed meanwhile follows from the two lists. A change that comes twice is dropped.
    """

    def __init__(
        self,
        connection: ClusterConnection,
        kind: ApiKind,
        selector: RunSelector,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        must_select(selector)
        self._connection = connection
        self._target = ApiTarget(kind, selector.namespace)
        self._selector = selector
        self._pause, self._clock = pause, clock
        self._version = ""  # "": must be listed
        self._there: dict[str, Mapping[str, Any]] = {}
        self._seen: dict[str, set[str]] = {}
        self._deleted: set[str] = set()

    def changes(self, *, limit: float) -> Iterator[ObjectChange]:
        """The changes since the last call, and those of the next `limit` seconds (rounded up to a whole one).

        Raises ClusterError for an error that does not pass, or that lasts as long as the connection is patient.
        """
        deadline = self._clock() + limit
        failing_since, wait = None, _FIRST_WAIT
        while (left := deadline - self._clock()) > 0:
            if not self._version:
                yield from self._list()
            heard = False
            try:
                for change in self._one_watch(min(left, _WATCH_LIMIT)):
                    heard = True
                    if change is not None:
                        yield change
                    if self._clock() > deadline:
                        return
                failing_since = None
            except ClusterError as error:
                if error.status == _GONE:
                    self._version = ""
                elif not error.passing or self._is_over(failing_since := failing_since or self._clock()):
                    raise
            if heard:
                failing_since, wait = None, _FIRST_WAIT
            elif deadline > self._clock():
                # A server that ends each watch at once is not asked again and again without a break.
                self._pause(min(wait, deadline - self._clock()))
                wait = min(2 * wait, _LONGEST_WAIT)

    def _is_over(self, since: float) -> bool:
        return self._clock() - since > self._connection.patience

    def _list(self) -> Iterator[ObjectChange]:
        found = listed(self._connection, self._target.kind, self._selector)
        uids = {str(manifest["metadata"]["uid"]) for manifest in found.manifests}
        for uid in [uid for uid in self._there if uid not in uids]:
            yield self._gone(uid, self._there[uid])
        for manifest in found.manifests:
            if (change := self._taken(manifest)) is not None:
                yield change
        self._version = found.version

    def _one_watch(self, limit: float) -> Iterator[ObjectChange | None]:
        """The changes of one watch; None for an event that is none."""
        query = {
            "labelSelector": self._selector.for_api(),
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
        }
        with self._connection.watch(self._target, query, limit=limit) as events:
            for event in events:
                manifest = event["object"]
                change = None
                if event["type"] == "DELETED":
                    change = self._lost(manifest)
                elif event["type"] != "BOOKMARK" and self._selector.matches(manifest):
                    change = self._taken(manifest)
                self._version = str(manifest["metadata"]["resourceVersion"])
                yield change

    def _taken(self, manifest: Mapping[str, Any]) -> ObjectChange | None:
        uid, version = str(manifest["metadata"]["uid"]), str(manifest["metadata"]["resourceVersion"])
        if uid in self._deleted or version in self._seen.setdefault(uid, set()):
            return None
        self._seen[uid].add(version)
        known = uid in self._there
        self._there[uid] = manifest
        return ObjectChange("changed" if known else "added", manifest)

    def _lost(self, manifest: Mapping[str, Any]) -> ObjectChange | None:
        uid = str(manifest["metadata"]["uid"])
        return self._gone(uid, manifest) if uid in self._there else None

    def _gone(self, uid: str, manifest: Mapping[str, Any]) -> ObjectChange:
        self._deleted.add(uid)
        del self._there[uid], self._seen[uid]
        return ObjectChange("deleted", manifest)
