"""One request to the API: what it does, to which objects, as whom."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.kubernetes_server.refusals import bad_request
from tests.kubernetes_server.resources import Catalogue, Resource

Json = dict[str, Any]
_PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))/(?P<rest>.+)")
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True)
class Call:
    """A request for objects of one resource. `number` counts the requests of a server, from 0."""

    number: int
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    resource: Resource
    namespace: str
    name: str
    subresource: str
    user: User = ANONYMOUS
    lists: Mapping[str, list[str]] = field(default_factory=dict, repr=False)

    @property
    def verb(self) -> str:
        """What is done, as roles name it."""
        if self.method == "GET":
            if self.subresource == "" and not self.name:
                return "watch" if self.is_true("watch") else "list"
            return "get"
        if self.method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return VERBS[self.method]

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "application/json").partition(";")[0].strip()

    def is_true(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("true", "1")

    def number_of(self, name: str) -> int | None:
        """A number in the query, None where there is none."""
        text = self.query.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise bad_request(f"invalid value for {name}: {text!r}") from None

    def json(self) -> Any:
        """The body; raises Refusal where it cannot be read."""
        try:
            return json.loads(self.body or b"{}")
        except ValueError as error:
            raise bad_request(f"the object provided is unrecognized (must be of type {self.resource.kind}): "
                              f"couldn't get version/kind; json parse error: {error}") from error  # fmt: skip


def parse(
    number: int, method: str, target: str, headers: Mapping[str, str], body: bytes, *, known: Catalogue
) -> Call | None:
    """Read a request; None where no resource lies at its path."""
    url = urlsplit(target)
    found = _PATH.fullmatch(url.path)
    if not found:
        return None
    group, version = found["group"] or "", found["core"] or found["version"]
    parts = [unquote(part) for part in found["rest"].strip("/").split("/")]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and known.find(group, version, parts[2]):
        namespace, parts = parts[1], parts[2:]
    resource = known.find(group, version, parts[0])
    if resource is None or len(parts) > 3 or (namespace and not resource.namespaced):
        return None
    name, subresource = [*parts[1:], "", ""][:2]
    if subresource and subresource not in resource.subresources:
        return None
    if name and resource.namespaced and not namespace:
        return None
    pairs = parse_qsl(url.query, keep_blank_values=True)
    lists: dict[str, list[str]] = {}
    for key, value in pairs:
        lists.setdefault(key, []).append(value)
    where = (resource, namespace, name, subresource)
    return Call(number, method, url.path, dict(pairs), headers, body, *where, lists=lists)
