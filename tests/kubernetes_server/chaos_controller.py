"""A controller of Chaos Mesh beside the API server: it does to the objects of faults what that of 2.8 does to them.

What an injection really does is left to a back-end. The webhook of Chaos Mesh is here, too.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from tests.kubernetes_server.admission import Attempt
from tests.kubernetes_server.chaos_rules import go_seconds, refused
from tests.kubernetes_server.chaos_targets import chosen
from tests.kubernetes_server.lifecycle import Lifecycle, now
from tests.kubernetes_server.refusals import webhook_absent, webhook_denied
from tests.kubernetes_server.resources import Resource
from tests.kubernetes_server.server import KubernetesServer

Json = dict[str, Any]
GROUP, FINALIZER = "chaos-mesh.org", "chaos-mesh/records"
FORCED = "chaos-mesh.chaos-mesh.org/cleanFinalizer"
PAUSED = "experiment.chaos-mesh.org/pause"
KINDS = ("networkchaos", "iochaos", "stresschaos", "timechaos", "dnschaos")
INJECTED, NOT_INJECTED = "Injected", "Not Injected"
#: Seconds between two looks at durations, and between two attempts after a failure.
PAUSE, RETRY = 0.05, 0.2
MOST_EVENTS = 10


class ChaosBackend(Protocol):
    """What injections really do. `pods` are the chosen ones: at "." those of the fault, at ".Target" the others. Raises
    OSError for an injection that fails; what it returns takes the injection back, and may raise OSError, too."""

    def apply(self, kind: str, spec: Json, pods: Mapping[str, list[Json]]) -> Callable[[], None]: ...


class RecordedCalls:
    """Does nothing, and remembers what it was asked for: `applied` and `undone` are kind, action and pods' names."""

    def __init__(self) -> None:
        self.applied: list[tuple[str, str, tuple[str, ...]]] = []
        self.undone: list[tuple[str, str, tuple[str, ...]]] = []

    def apply(self, kind: str, spec: Json, pods: Mapping[str, list[Json]]) -> Callable[[], None]:
        names = tuple(pod["metadata"]["name"] for side in pods.values() for pod in side)
        call = (kind, spec.get("action", ""), names)
        self.applied.append(call)
        return lambda: self.undone.append(call)


class ChaosController:
    """Works in a thread of its own, between `start` and `stop`.

    `slow` is how many seconds an injection takes. `fails` tells for a pod's name why its injection fails, or None;
    `stuck` has recoveries fail with this message. If it `lies`, it says that everything is injected, and injects
    nothing. While it `is_idle` it does nothing, and its webhook goes on. `errors` are exceptions of its own.
    """

    def __init__(self, server: KubernetesServer, backend: ChaosBackend | None = None) -> None:
        self.backend = backend or RecordedCalls()
        self.slow = 0.0
        self.fails: Callable[[str], str | None] = lambda pod: None
        self.stuck = ""
        self.lies = False
        self.is_idle = False
        self.errors: list[Exception] = []
        self._server, self._store = server, server.store
        self._lifecycle = Lifecycle(server.store, server.catalogue)
        self._undo: dict[str, Callable[[], None]] = {}
        self._since: dict[str, float] = {}
        self._retry_at: dict[str, float] = {}
        self._is_down, self._closed = False, False
        self._thread = threading.Thread(target=self._work, name="chaos-controller")

    def start(self) -> ChaosController:
        self._server.api.admission.hooks.append(self._webhook)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End, and take back what is still injected, as if the pods had gone."""
        with self._store.changed:
            self._closed = True
            self._store.changed.notify_all()
        self._thread.join()
        self._server.api.admission.hooks.remove(self._webhook)
        for undo in self._undo.values():
            undo()
        for error in self.errors:
            raise error

    @contextmanager
    def down(self) -> Iterator[None]:
        """Do nothing for a while; the API server, which cannot reach the webhook, then refuses every change."""
        self._is_down = True
        try:
            yield
        finally:
            self._is_down = False

    def _webhook(self, attempt: Attempt) -> None:
        if attempt.resource.group != GROUP or attempt.verb == "delete":
            return
        name = f"v{attempt.resource.kind.lower()}.kb.io"
        if self._is_down:
            raise webhook_absent(name, "chaos-mesh-controller-manager.chaos-mesh.svc:443")
        if why := refused(attempt.resource.kind, attempt.before, attempt.obj):
            raise webhook_denied(name, why)

    def _work(self) -> None:
        while True:
            with self._store.changed:
                if self._closed:
                    return
                version = self._store.version
            if not (self._is_down or self.is_idle):
                for resource in self._resources():
                    for seen in self._store.all(resource):
                        try:
                            self._reconcile(resource, seen["metadata"]["namespace"], seen["metadata"]["name"])
                        except Exception as error:
                            self.errors.append(error)
            with self._store.changed:
                if not self._closed and self._store.version == version:
                    self._store.changed.wait(PAUSE)

    def _resources(self) -> list[Resource]:
        return [one for one in self._server.catalogue if one.group == GROUP and one.plural in KINDS]

    def _reconcile(self, resource: Resource, namespace: str, name: str) -> None:
        """One round of all parts of the real controller, in its order."""
        obj = self._store.get(resource, namespace, name)
        if obj is None:
            return
        metadata, uid = obj["metadata"], obj["metadata"]["uid"]
        self._since.setdefault(uid, time.monotonic())
        deleted = "deletionTimestamp" in metadata
        if not deleted and FINALIZER not in metadata.get("finalizers", ()):
            self._write(resource, obj, lambda new: new["metadata"].setdefault("finalizers", []).append(FINALIZER))
        desired = self._desired(obj)
        self._status(resource, obj, lambda status: status["experiment"].update(desiredPhase=desired))
        records = (obj.get("status") or {}).get("experiment", {}).get("containerRecords")
        if records is None and not deleted:
            records = chosen(self._server, resource.kind, obj) or None
            self._keep(resource, obj, records)
        if records is not None and time.monotonic() >= self._retry_at.get(uid, 0.0):
            due = time.monotonic() - self._since[uid] >= self.slow
            if desired == "Run" and due and any(one["phase"] != INJECTED for one in records):
                records = self._inject(resource.kind, obj, records)
            elif desired == "Stop" and any(one["phase"] != NOT_INJECTED for one in records):
                records = self._recover(uid, records)
            failed = any(one["events"][-1]["type"] == "Failed" for one in records if "events" in one)
            self._retry_at[uid] = time.monotonic() + RETRY if failed else 0.0
        self._keep(resource, obj, records)
        forced = metadata.get("annotations", {}).get(FORCED) == "forced"
        if deleted and (forced or all(one["phase"] == NOT_INJECTED for one in records or ())):
            self._write(resource, obj, lambda new: new["metadata"].pop("finalizers", None))

    def _desired(self, obj: Json) -> str:
        metadata, spec = obj["metadata"], obj["spec"]
        if "deletionTimestamp" in metadata:
            return "Stop"
        age = datetime.now(UTC) - datetime.fromisoformat(metadata["creationTimestamp"])
        over = "duration" in spec and age.total_seconds() >= go_seconds(spec["duration"])
        return "Stop" if over or metadata.get("annotations", {}).get(PAUSED) == "true" else "Run"

    def _inject(self, kind: str, obj: Json, records: list[Json]) -> list[Json]:
        """All pods at once, where none of them fails; a retry of the others else."""
        failures = {one["id"]: self.fails(one["id"].split("/")[1]) for one in records}
        if not any(failures.values()) and not self.lies and obj["metadata"]["uid"] not in self._undo:
            try:
                self._undo[obj["metadata"]["uid"]] = self._apply(kind, obj, records)
            except OSError as error:
                failures = {one["id"]: str(error) for one in records}
        return [
            _noted(one, "Apply", failures[one["id"]], INJECTED) if one["phase"] != INJECTED else one for one in records
        ]

    def _apply(self, kind: str, obj: Json, records: list[Json]) -> Callable[[], None]:
        resource = self._server.catalogue.named("pods")
        pods: dict[str, list[Json]] = {}
        for record in records:
            namespace, name = record["id"].split("/")[:2]
            if (pod := self._store.get(resource, namespace, name)) is None:
                raise OSError(f'Pod "{name}" not found')
            pods.setdefault(record["selectorKey"], []).append(pod)
        return self.backend.apply(kind, obj["spec"], pods)

    def _recover(self, uid: str, records: list[Json]) -> list[Json]:
        failure = self.stuck
        if not failure and (undo := self._undo.get(uid)) is not None:
            try:
                undo()
                del self._undo[uid]
            except OSError as error:
                failure = str(error)
        left = [one for one in records if one["phase"] != NOT_INJECTED]
        return [_noted(one, "Recover", failure, NOT_INJECTED) if one in left else one for one in records]

    def _keep(self, resource: Resource, obj: Json, records: list[Json] | None) -> None:
        """Records and conditions, which the real controller writes one after the other."""
        if records is not None:
            self._status(resource, obj, lambda status: status["experiment"].update(containerRecords=records))
        phases = {one["phase"] for one in records or ()}
        paused = obj["metadata"].get("annotations", {}).get(PAUSED) == "true"
        facts = {"Selected": records is not None, "AllInjected": phases == {INJECTED},
                 "AllRecovered": phases == {NOT_INJECTED}, "Paused": paused}  # fmt: skip
        conditions = [{"type": name, "status": str(fact)} for name, fact in facts.items()]
        self._status(resource, obj, lambda status: status.update(conditions=conditions))

    def _status(self, resource: Resource, obj: Json, change: Callable[[Json], Any]) -> None:
        def changed(new: Json) -> None:
            status = new.setdefault("status", {})
            status.setdefault("experiment", {})
            change(status)

        self._write(resource, obj, changed)

    def _write(self, resource: Resource, obj: Json, change: Callable[[Json], Any]) -> None:
        """Change the object as it is now; nothing happens if it is another one, or gone."""
        metadata = obj["metadata"]
        with self._store.changed:
            before = self._store.get(resource, metadata["namespace"], metadata["name"])
            if before is None or before["metadata"]["uid"] != metadata["uid"]:
                return
            after = copy.deepcopy(before)
            change(after)
            self._lifecycle.replace(resource, before, after)
            self._server.api.garbage.collect()


def _noted(record: Json, operation: str, failure: str | None, phase: str) -> Json:
    """The record after an attempt."""
    event = {"operation": operation, "timestamp": now(), "type": "Failed" if failure else "Succeeded"}
    event |= {"message": failure} if failure else {}
    events = [*record.get("events", ()), event][-MOST_EVENTS:]
    count = "injectedCount" if operation == "Apply" else "recoveredCount"
    done = {} if failure else {"phase": phase, count: record[count] + 1}
    return record | {"events": events} | done
