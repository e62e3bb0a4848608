"""Watches: the changes since a resource version, one by one as they happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.kubernetes_server.calls import Call
from tests.kubernetes_server.lists import condition_of, version_of
from tests.kubernetes_server.refusals import Refusal
from tests.kubernetes_server.selectors import Condition
from tests.kubernetes_server.store import Change, Store

Json = dict[str, Any]
#: Seconds after which a watch with nothing to say looks whether anybody still listens.
LOOK_AROUND = 0.1


class Watches:
    """Streams of events.

    `bookmark_every` is in seconds. `gone_at_once` decides how a watch from a compacted version is refused: by the
    status of the answer, or, as most often on a real server, by an event within the stream.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.bookmark_every = 60.0
        self.gone_at_once = False
        self.closed = False

    def watch(self, call: Call) -> Iterator[Json | None]:
        """The events that a call asks for, and None now and then where there are none; raises Refusal at once."""
        wanted, version = condition_of(call), version_of(call, self._store)
        if version and self.gone_at_once:
            self._store.since(version, lambda change: False)
        return self._events(call, wanted, version)

    def _events(self, call: Call, wanted: Condition, version: int) -> Iterator[Json | None]:
        began = time.monotonic()
        ends = began + (call.number_of("timeoutSeconds") or 3600)
        bookmarks = call.is_true("allowWatchBookmarks")
        marked = began
        if not version:
            version, found = self._all(call, wanted)
            yield from [_event("ADDED", obj) for obj in found]
            if call.is_true("sendInitialEvents"):
                yield _bookmark(call, version, {"k8s.io/initial-events-end": "true"})
        while not self.closed and time.monotonic() < ends:
            with self._store.changed:
                try:
                    changes = self._store.since(version, _concerns(call))
                except Refusal as refusal:
                    yield _event("ERROR", refusal.status())
                    return
                version = self._store.version
                if not changes:
                    self._store.changed.wait(min(LOOK_AROUND, max(0.0, ends - time.monotonic())))
            for change in changes:
                yield from _events_of(change, wanted)
            if bookmarks and time.monotonic() >= marked + self.bookmark_every:
                marked = time.monotonic()
                yield _bookmark(call, version)
            elif not changes:
                yield None
        if bookmarks and not self.closed:
            yield _bookmark(call, version)

    def _all(self, call: Call, wanted: Condition) -> tuple[int, list[Json]]:
        with self._store.changed:
            found = [obj for obj in self._store.all(call.resource, call.namespace) if wanted(obj)]
            return self._store.version, found


def _concerns(call: Call) -> Callable[[Change], bool]:
    def concerns(change: Change) -> bool:
        here = call.namespace in ("", change.namespace)
        return here and change.resource == call.resource.key

    return concerns


def _events_of(change: Change, wanted: Condition) -> Iterator[Json]:
    """What a change is to one who wants some objects only: an object that is wanted no more is deleted for them."""
    before = change.before if change.before is not None and wanted(change.before) else None
    after = change.after if change.after is not None and wanted(change.after) else None
    if after is not None:
        yield _event("ADDED" if before is None else "MODIFIED", after)
    elif before is not None:
        metadata = before["metadata"] | {"resourceVersion": str(change.version)}
        yield _event("DELETED", before | {"metadata": metadata})


def _event(kind: str, obj: Json) -> Json:
    return {"type": kind, "object": obj}


def _bookmark(call: Call, version: int, annotations: Json | None = None) -> Json:
    metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    obj = {"kind": call.resource.kind, "apiVersion": call.resource.api_version, "metadata": metadata}
    return _event("BOOKMARK", obj)
