"""The server as tests have it: started and stopped, away and back, with kubeconfigs for its users."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.kubernetes_server.api import DEFINITIONS, Answer, Api
from tests.kubernetes_server.calls import Call, User, parse
from tests.kubernetes_server.defaults import complete
from tests.kubernetes_server.discovery import discover
from tests.kubernetes_server.faults import ApiFault, Decide, disturbed, refusal_of
from tests.kubernetes_server.http_server import Handler, HttpServer
from tests.kubernetes_server.lifecycle import NAMESPACES, newly_made
from tests.kubernetes_server.namespaces import furnish
from tests.kubernetes_server.refusals import Refusal
from tests.kubernetes_server.resources import Catalogue
from tests.kubernetes_server.store import Store

Json = dict[str, Any]
FIRST_NAMESPACES = ("default", "kube-system")


class KubernetesServer:
    """An API server in this process, with its objects in memory.

    `definitions` are the CustomResourceDefinitions that are installed from the beginning. `calls` are the requests
    for objects so far, `injected` the faults that they met, and `errors` what went wrong in the server itself.
    """

    def __init__(self, *, definitions: Iterable[Json] = ()) -> None:
        self.store = Store()
        self.catalogue = Catalogue()
        self.api = Api(self.store, self.catalogue)
        self.calls: list[Call] = []
        self.errors: list[Exception] = []
        self.injected: list[tuple[Call, ApiFault]] = []
        self._decide: Decide | None = None
        self._numbers = itertools.count()
        self._http = HttpServer(lambda handler: self._respond(handler))
        for name in FIRST_NAMESPACES:
            self.put("namespaces", {"metadata": {"name": name}})
        for definition in definitions:
            self.put("customresourcedefinitions", definition, group="apiextensions.k8s.io")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.port}"

    @property
    def open_connections(self) -> int:
        return self._http.open_connections

    def start(self) -> None:
        self._http.start()

    def listen_with_tls(self, address: str, certificate: Path, key: Path) -> int:
        """Answer at another address, too, as pods are used to; returns the port."""
        return self._http.listen_with_tls(address, certificate, key)

    def stop(self) -> None:
        self.api.watches.closed = True
        self._http.stop()
        if self.api.backend is not None:
            self.api.backend.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Refuse connections for a while, and cut those that are there; the objects stay."""
        self._http.stop(comes_back=True)
        try:
            yield
        finally:
            self._http.start()

    @contextmanager
    def faulty(self, decide: Decide) -> Iterator[None]:
        """Let faults happen to the calls for objects, for a while."""
        self._decide = decide
        try:
            yield
        finally:
            self._decide = None

    def put(self, plural: str, obj: Json, *, group: str = "", namespace: str = "default") -> Json:
        """Store an object as it is, past all rules: what a controller or a kubelet would have made."""
        resource = self.catalogue.named(plural, group)
        if resource.key == DEFINITIONS:
            self.catalogue.install(obj)
        else:
            obj = copy.deepcopy(obj)
        made = newly_made(resource, namespace if resource.namespaced else "", obj)
        if resource.custom is None:
            complete(resource.kind, made)
        if resource.key == NAMESPACES:
            furnish(made["metadata"]["name"], self.store, self.catalogue)
        return self.store.put(resource, made | ({"status": obj["status"]} if "status" in obj else {}))

    def add_user(self, name: str, *groups: str) -> User:
        """Know somebody by the token that is their name, without any right so far."""
        self.api.authorizer.users[name] = User(name, ("system:authenticated", *groups))
        return self.api.authorizer.users[name]

    def kubeconfig(self, directory: Path, *, token: str = "admin", context: str = "staging") -> Path:
        """Write a file that leads here, for whoever has a token."""
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": context,
            "clusters": [{"name": "ours", "cluster": {"server": self.address}}],
            "users": [{"name": "somebody", "user": {"token": token}}],
            "contexts": [{"name": context, "context": {"cluster": "ours", "user": "somebody"}}],
        }  # fmt: skip
        path = directory / f"{token.replace(':', '-')}.kubeconfig.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _respond(self, handler: Handler) -> Answer:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        call = parse(next(self._numbers), handler.command, handler.path, headers, handler.body, known=self.catalogue)
        if call is not None:
            self.calls.append(call)
        try:
            if call is not None:
                return self._answer(call)
            self.api.authorizer.user_of(headers)
            found = discover(urlsplit(handler.path).path, self.catalogue)
            return Answer(404, "404 page not found\n") if found is None else Answer(200, found)
        except Refusal as refusal:
            return _answer_of(refusal)
        except ConnectionError:
            raise
        except Exception as error:
            self.errors.append(error)
            return _answer_of(Refusal(500, "InternalError", f"Internal error occurred: {error!r}"))

    def _answer(self, call: Call) -> Answer:
        fault = self._decide(call) if self._decide else None
        if fault is None or not fault.fits(call):
            return self.api.answer(call)
        self.injected.append((call, fault))
        refusal = refusal_of(fault, call)
        if fault.kind == "reset" or refusal is not None:
            if fault.applied and call.verb != "watch":
                self.api.answer(call)
            raise refusal or ConnectionResetError("no answer")
        answer = self.api.answer(call)
        return answer if answer.events is None else replace(answer, events=disturbed(answer.events, fault))


def _answer_of(refusal: Refusal) -> Answer:
    return Answer(refusal.code, refusal.status(), headers=tuple(refusal.headers.items()))
