"""The answers to the requests of clients: one function for each verb."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.kubernetes_server.admission import Admission
from tests.kubernetes_server.authorization import Authorizer
from tests.kubernetes_server.calls import Call
from tests.kubernetes_server.evictions import evict
from tests.kubernetes_server.garbage import GarbageCollector
from tests.kubernetes_server.lifecycle import NAMESPACES, Deletion, Lifecycle, changed, newly_made
from tests.kubernetes_server.lists import Lists
from tests.kubernetes_server.namespaces import furnish
from tests.kubernetes_server.patches import patched
from tests.kubernetes_server.pod_backend import PodBackend
from tests.kubernetes_server.pod_streams import container_of, execute, forward, log, must_run
from tests.kubernetes_server.refusals import Cause, Refusal, bad_request, invalid, not_allowed
from tests.kubernetes_server.resources import Catalogue
from tests.kubernetes_server.reviews import review
from tests.kubernetes_server.store import Store
from tests.kubernetes_server.validation import Accepted, check, completed, decoded
from tests.kubernetes_server.watches import Watches
from tests.kubernetes_server.websocket import WebSocket

Json = dict[str, Any]
#: A change of these changes what is served.
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")


@dataclass(frozen=True)
class Answer:
    """What goes back: an object or a text, or a stream of them, or a WebSocket that `upgrade` talks over."""

    code: int
    body: Json | str = field(default_factory=dict)
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    events: Iterator[Json | bytes | None] | None = None
    upgrade: Callable[[WebSocket], None] | None = None


class Api:
    """All verbs on all resources of one store."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue
        self._lifecycle = Lifecycle(store, catalogue)
        self._lists = Lists(store)
        self.watches = Watches(store)
        self.backend: PodBackend | None = None
        self.authorizer = Authorizer(store, catalogue)
        self.admission = Admission(store, catalogue)
        self.garbage = GarbageCollector(store, catalogue, self._lifecycle)

    def answer(self, call: Call) -> Answer:
        """Do what is asked; raises Refusal."""
        call = replace(call, user=self.authorizer.user_of(call.headers))
        with self._store.changed:
            self.authorizer.check(call)
            answer = getattr(self, f"_{call.verb}")(call)
            if call.verb not in ("get", "list", "watch") and not call.dry_run:
                self.garbage.collect()
        return answer

    def _get(self, call: Call) -> Answer:
        if call.subresource in ("exec", "portforward", "log"):
            return self._of_pod(call)
        return Answer(200, self._lifecycle.existing(call.resource, call.namespace, call.name))

    def _of_pod(self, call: Call) -> Answer:
        """What only a process has; there are none without a back-end."""
        pod = self._lifecycle.existing(call.resource, call.namespace, call.name)
        backend = self.backend
        container = "" if call.subresource == "portforward" else container_of(call, pod)
        must_run(pod, container)
        if backend is None:
            raise Refusal(500, "InternalError", "Internal error occurred: dial tcp: connect: connection refused")
        if call.subresource == "log":
            lines = log(backend, pod, container, call, lambda: self._is_over(call, pod))
            return Answer(200, media_type="text/plain", events=lines)
        if "websocket" not in call.headers.get("upgrade", "").lower():
            raise bad_request("Upgrade request required")
        if call.subresource == "exec":
            return Answer(101, upgrade=lambda web: execute(web, backend, pod, container, call))
        ports = [int(port) for text in call.lists.get("ports", []) for port in text.split(",")]
        return Answer(101, upgrade=lambda web: forward(web, backend, pod, ports))

    def _is_over(self, call: Call, seen: Json) -> bool:
        """Whether a pod that was seen has ended, or is another one by now."""
        pod = self._store.get(call.resource, call.namespace, call.name)
        same = pod is not None and pod["metadata"]["uid"] == seen["metadata"]["uid"]
        ended = ("Succeeded", "Failed")
        return self.watches.closed or not same or (pod or {}).get("status", {}).get("phase") in ended

    def _list(self, call: Call) -> Answer:
        return Answer(200, self._lists.list(call))

    def _watch(self, call: Call) -> Answer:
        return Answer(200, events=self.watches.watch(call))

    def _create(self, call: Call) -> Answer:
        if call.subresource == "eviction":
            return self._evict(call)
        if call.name:
            raise not_allowed()
        if call.resource.verbs == ("create",):
            return Answer(201, review(call, self._body(call), self.authorizer))
        accepted = decoded(call.resource, self._body(call), call.query.get("fieldValidation", ""))
        obj = completed(call.resource, newly_made(call.resource, call.namespace, accepted.obj))
        check(call.resource, obj)
        self.admission.admit(call, None, obj)
        made = self._lifecycle.create(call.resource, call.namespace, obj, dry_run=call.dry_run)
        if call.resource.key == DEFINITIONS and not call.dry_run:
            self._catalogue.install(made)
        if call.resource.key == NAMESPACES and not call.dry_run:
            furnish(made["metadata"]["name"], self._store, self._catalogue)
        return Answer(201, made, headers=_warnings(accepted))

    def _update(self, call: Call) -> Answer:
        before = self._lifecycle.existing(call.resource, call.namespace, call.name)
        accepted = decoded(call.resource, self._body(call), call.query.get("fieldValidation", ""))
        if call.resource.custom is not None and "resourceVersion" not in accepted.obj.get("metadata", {}):
            why = "Invalid value: 0x0: must be specified for an update"
            raise invalid(call.resource, call.name, [Cause("metadata.resourceVersion", "FieldValueInvalid", why)])
        return self._replace(call, before, accepted)

    def _patch(self, call: Call) -> Answer:
        before = self._lifecycle.existing(call.resource, call.namespace, call.name)
        wished = patched(call.resource, before, call.json(), call.media_type)
        mode = call.query.get("fieldValidation", "")
        return self._replace(call, before, decoded(call.resource, wished, mode, patch=call.body.decode()))

    def _replace(self, call: Call, before: Json, accepted: Accepted) -> Answer:
        obj = changed(call.resource, before, accepted.obj, subresource=call.subresource)
        obj = completed(call.resource, obj)
        check(call.resource, obj, before)
        self.admission.admit(call, before, obj)
        made = self._lifecycle.replace(call.resource, before, obj, dry_run=call.dry_run)
        if call.resource.key == DEFINITIONS and not call.dry_run:
            self._catalogue.install(made)
        return Answer(200, made, headers=_warnings(accepted))

    def _evict(self, call: Call) -> Answer:
        """Delete a pod as whoever drains a node does."""
        obj = self._lifecycle.existing(call.resource, call.namespace, call.name)
        self.admission.admit(call, obj, None)
        evict(
            call.resource, obj, call.json().get("deleteOptions") or {}, store=self._store, catalogue=self._catalogue,
            lifecycle=self._lifecycle, dry_run=call.dry_run,
        )  # fmt: skip
        return Answer(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def _delete(self, call: Call) -> Answer:
        before = self._lifecycle.existing(call.resource, call.namespace, call.name)
        uid = before["metadata"]["uid"]
        self.admission.admit(call, before, None)
        obj, gone = self._lifecycle.delete(call.resource, before, _deletion(call), dry_run=call.dry_run)
        if gone and call.resource.key == DEFINITIONS and not call.dry_run:
            self._uninstall(obj)
        if not gone or call.resource.key == ("", "pods"):
            return Answer(200, obj)
        details = {"name": call.name, "group": call.resource.group, "kind": call.resource.plural, "uid": uid}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Answer(200, status | {"details": {key: value for key, value in details.items() if value}})

    def _deletecollection(self, call: Call) -> Answer:
        found = self._lists.list(call)
        how = _deletion(call)
        for seen in found["items"]:
            metadata = seen["metadata"]
            obj = self._store.get(call.resource, metadata.get("namespace", ""), metadata["name"])
            if obj is not None:
                self.admission.admit(call, obj, None)
                self._lifecycle.delete(call.resource, obj, how, dry_run=call.dry_run)
        return Answer(200, found)

    def _uninstall(self, definition: Json) -> None:
        """A definition goes with all its objects."""
        names = definition["spec"]["names"]
        resource = self._catalogue.named(names["plural"], definition["spec"]["group"])
        for obj in self._store.all(resource):
            self._store.remove(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        self._catalogue.uninstall(definition)

    def _body(self, call: Call) -> Json:
        body = call.json()
        if not isinstance(body, dict):
            raise bad_request(f"the object provided is unrecognized (must be of type {call.resource.kind})")
        if not isinstance(body.setdefault("metadata", {}), dict):
            raise bad_request("the object provided is unrecognized: its metadata is no object")
        for key, expected in (("apiVersion", call.resource.api_version), ("kind", call.resource.kind)):
            if body.setdefault(key, expected) != expected:
                sent = f"{body.get('apiVersion')}, Kind={body.get('kind')}"
                wanted = f"{call.resource.api_version}, Kind={call.resource.kind}"
                why = f"the API version in the data ({sent}) does not match the expected API version ({wanted})"
                raise bad_request(why)
        return body


def _warnings(accepted: Accepted) -> tuple[tuple[str, str], ...]:
    return tuple(("Warning", f"299 - {json.dumps(warning)}") for warning in accepted.warnings)


def _deletion(call: Call) -> Deletion:
    """How to delete: from the body, or from the query where the body says nothing."""
    options = call.json() if call.body else {}
    policy = options.get("propagationPolicy") or call.query.get("propagationPolicy")
    orphan = options.get("orphanDependents")
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if policy not in (None, "Orphan", "Background", "Foreground"):
        raise Refusal(422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: '
                      f'"{policy}": supported values: "Foreground", "Background", "Orphan", ""')  # fmt: skip
    grace = options.get("gracePeriodSeconds", call.number_of("gracePeriodSeconds"))
    return Deletion(policy, grace, options.get("preconditions") or {})
