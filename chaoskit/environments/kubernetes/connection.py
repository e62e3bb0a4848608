"""`ClusterConnection`: requests to one API server; their errors are ClusterErrors, and passing ones are repeated.

The official client is imported when the first connection is made: chaoskit works without it.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from chaoskit.environments.kubernetes.access_rule import AccessRule
from chaoskit.environments.kubernetes.api_kinds import ApiKind
from chaoskit.environments.kubernetes.cluster_error import ClusterError, of_answer, of_failure
from chaoskit.environments.kubernetes.kubeconfig import ClusterAddress
from chaoskit.environments.kubernetes.retries import Answer, retried
from chaoskit.protocol.json_lines import LineBuffer

#: Seconds for a connection and for an answer. A busy server may take long for a large list.
_CONNECT_LIMIT, _ANSWER_LIMIT = 10.0, 60.0
#: In each object that chaoskit makes: which request made it. A repeated request finds its own object by it.
REQUEST = "chaoskit.dev/request"
_METHODS = {"create": "POST", "delete": "DELETE", "patch": "PATCH"}


@dataclass(frozen=True)
class ApiTarget:
    """What a request is about: the objects of a kind in a namespace, or one of them by `name`, or a part of it."""

    kind: ApiKind
    namespace: str
    name: str = ""
    subresource: str = ""

    @property
    def path(self) -> str:
        return self.kind.path(self.namespace, self.name, self.subresource)

    def rule(self, verb: str) -> AccessRule:
        """What a Role must allow for this verb."""
        resource = f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural
        return AccessRule(self.kind.group, (resource,), (verb,))

    def __str__(self) -> str:
        part = f"{self.subresource} of " if self.subresource else ""
        return f"{part}{self.kind.kind} {self.name}" if self.name else self.kind.plural


class ClusterConnection:
    """One connection. Every request is repeated while its error is a passing one, for `patience` seconds. `pause`
    waits between two attempts."""

    def __init__(
        self, address: ClusterAddress, *, patience: float = 60.0, pause: Callable[[float], None] = time.sleep
    ) -> None:
        dynamic = importlib.import_module("kubernetes.dynamic")
        self.address = address
        self.patience = patience
        self._pause = pause
        # Without its discovery, which would fetch every kind of the cluster and keep them in a file.
        self._client: Any = dynamic.DynamicClient(address.client, discoverer=lambda client, cache_file: None)

    def close(self) -> None:
        """Close the connection."""
        self.address.client.close()

    def read(self, path: str, *, what: str) -> dict[str, Any]:
        """What the server has at an address that is no object, such as `/version`; `what` says it for an error."""
        return self._retried(lambda: self._send("GET", path, what=what))

    def log(self, target: ApiTarget, *, lines: int) -> str:
        """The last lines that the container of a pod has written."""
        return self._retried(lambda: self._text(target, {"tailLines": str(lines)}))

    @contextmanager
    def follow(self, target: ApiTarget) -> Iterator[Iterator[bytes]]:
        """What the container of a pod writes, from the beginning and as it comes, until it ends or the connection does.
        One attempt: raises ClusterError if it is refused or breaks off."""
        part = ApiTarget(target.kind, target.namespace, target.name, "log")
        what, rule = f"follow the log of {target} in {target.namespace}", part.rule("get")
        with self._failures(what, rule):
            answer = self._client.request(
                "GET", part.path, serialize=False, query_params=[("follow", "true")],
                _request_timeout=(_CONNECT_LIMIT, None),
            )  # fmt: skip
        try:
            yield self._pieces(answer, what, rule)
        finally:
            answer.close()

    def _pieces(self, answer: Any, what: str, rule: AccessRule) -> Iterator[bytes]:
        with self._failures(what, rule):
            yield from answer.stream(amt=None, decode_content=True)

    def ask(self, path: str, question: Mapping[str, Any], *, what: str) -> dict[str, Any]:
        """The answer to a review: it is sent like an object, and the server stores nothing."""
        query = {"fieldValidation": "Strict"}
        return self._retried(lambda: self._send("POST", path, what=what, body=question, query=query))

    def get(self, target: ApiTarget) -> dict[str, Any]:
        """One object."""
        return self._repeated("get", target)

    def page(self, target: ApiTarget, query: Mapping[str, str]) -> dict[str, Any]:
        """One page of a list."""
        return self._repeated("list", target, query=query)

    def create(self, namespace: str, kind: ApiKind, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        """Make an object; returns it as the server stores it. A field that the server does not know is an error.

        After an attempt that may have been carried out although it failed, the object may be there already: it is
        known by its annotation. Raises ClusterError with reason `AlreadyExists` for an object of somebody else.
        """
        token = uuid4().hex
        metadata = manifest["metadata"]
        marked = {**metadata, "annotations": {**(metadata.get("annotations") or {}), REQUEST: token}}
        body = {**manifest, "metadata": marked}
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        target, one = ApiTarget(kind, namespace), ApiTarget(kind, namespace, metadata["name"])
        may_be_there = False

        def attempt() -> dict[str, Any]:
            nonlocal may_be_there
            try:
                return self._once("create", target, shown=one, body=body, query=query)
            except ClusterError as error:
                if may_be_there and error.reason == "AlreadyExists":
                    found = self._once("get", one)
                    if (found["metadata"].get("annotations") or {}).get(REQUEST) == token:
                        return found
                may_be_there |= error.passing
                raise

        return self._retried(attempt)

    def patch(self, target: ApiTarget, change: Mapping[str, Any]) -> dict[str, Any]:
        """Merge a change into one object."""
        query = {"fieldValidation": "Strict"}
        return self._repeated("patch", target, body=change, query=query, content="application/merge-patch+json")

    def delete(self, target: ApiTarget, *, uid: str, grace: int | None = None) -> None:
        """Begin the removal of one object and of what it owns. Nothing happens if it is not there, or if an object of
        another uid has its name by now."""
        options: dict[str, Any] = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace

        self._unless_gone(target, uid, lambda: self._once("delete", target, body=options))

    def evict(self, target: ApiTarget, *, uid: str) -> None:
        """Ask for the eviction of one pod: it ends as its own grace says. Nothing happens if it is not there, or if a
        pod of another uid has its name by now."""
        part = ApiTarget(target.kind, target.namespace, target.name, "eviction")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }

        self._unless_gone(target, uid, lambda: self._once("create", part, shown=part, body=body))

    @contextmanager
    def watch(self, target: ApiTarget, query: Mapping[str, str], *, limit: float) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a watch, which the server ends after `limit` seconds. One attempt: raises ClusterError if it
        is refused or breaks off."""
        what = f"watch {target}"
        with self._failures(what, target.rule("watch")):
            answer = self._client.request(
                "GET", target.path, serialize=False, _request_timeout=(_CONNECT_LIMIT, limit + _ANSWER_LIMIT),
                query_params=[*query.items(), ("watch", "true"), ("timeoutSeconds", str(max(1, round(limit))))],
            )  # fmt: skip
        try:
            yield self._events(answer, what, target.rule("watch"))
        finally:
            answer.close()

    def _events(self, answer: Any, what: str, rule: AccessRule) -> Iterator[dict[str, Any]]:
        lines = LineBuffer()
        with self._failures(what, rule):
            for piece in answer.stream(amt=None, decode_content=True):
                for line in filter(None, lines.feed(piece)):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise of_answer(what, int(status.get("code") or 0), json.dumps(status), rule=rule)
                    yield event

    def _repeated(self, verb: str, target: ApiTarget, **options: Any) -> dict[str, Any]:
        return self._retried(lambda: self._once(verb, target, **options))

    def _unless_gone(self, target: ApiTarget, uid: str, request: Callable[[], object]) -> None:
        """A request, repeated, about the object of this uid. That it is gone, or replaced by another, is no error."""

        def attempt() -> None:
            try:
                request()
            except ClusterError as error:
                is_gone = error.status == 404 or (error.reason == "Conflict" and self._uid_of(target) != uid)
                if not is_gone:
                    raise

        self._retried(attempt)

    def _uid_of(self, target: ApiTarget) -> str:
        """The uid of the object that has this name now; "" if there is none."""
        try:
            return str(self._once("get", target)["metadata"]["uid"])
        except ClusterError as error:
            if error.status != 404:
                raise
            return ""

    def _retried(self, attempt: Callable[[], Answer]) -> Answer:
        return retried(attempt, patience=self.patience, pause=self._pause)

    def _once(
        self, verb: str, target: ApiTarget, *, shown: ApiTarget | None = None, **options: Any
    ) -> dict[str, Any]:
        method, what = _METHODS.get(verb, "GET"), f"{verb} {shown or target}"
        return self._send(method, target.path, what=f"{what} in {target.namespace}", rule=target.rule(verb), **options)

    def _send(
        self,
        method: str,
        path: str,
        *,
        what: str,
        rule: AccessRule | None = None,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> dict[str, Any]:
        with self._failures(what, rule):
            answer = self._client.request(
                method, path, body=body, serialize=False, query_params=list((query or {}).items()),
                content_type=content, _request_timeout=(_CONNECT_LIMIT, _ANSWER_LIMIT),
            )  # fmt: skip
            told = json.loads(answer.data)
        if not isinstance(told, dict):
            raise of_failure(what, self.address.server, ValueError("an answer that is no object"))
        return told

    def _text(self, target: ApiTarget, query: Mapping[str, str]) -> str:
        part = ApiTarget(target.kind, target.namespace, target.name, "log")
        with self._failures(f"get the log of {target} in {target.namespace}", part.rule("get")):
            answer = self._client.request(
                "GET", part.path, serialize=False, query_params=list(query.items()),
                _request_timeout=(_CONNECT_LIMIT, _ANSWER_LIMIT),
            )  # fmt: skip
            return bytes(answer.data).decode(errors="replace")

    @contextmanager
    def _failures(self, what: str, rule: AccessRule | None) -> Iterator[None]:
        """Make a ClusterError of whatever the client raises for a request that does `what`."""
        refused = importlib.import_module("kubernetes.client.exceptions").ApiException
        transport = importlib.import_module("urllib3.exceptions").HTTPError
        try:
            yield
        except refused as error:
            if not error.status:  # the client's form of an error of TLS
                raise of_failure(what, self.address.server, error) from error
            raise of_answer(what, error.status, error.body, error.headers, rule=rule) from error
        except (transport, OSError, ValueError) as error:  # a ValueError: whatever answers is no API server
            raise of_failure(what, self.address.server, error) from error
