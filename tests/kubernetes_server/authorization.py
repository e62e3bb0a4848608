"""Who may do what: tokens to users, and the roles that are bound to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.kubernetes_server.calls import ANONYMOUS, Call, User
from tests.kubernetes_server.refusals import forbidden, unauthorized
from tests.kubernetes_server.resources import Catalogue
from tests.kubernetes_server.store import Store

Json = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
#: What a WebSocket is opened for by GET, and needs the right to create all the same.
STREAMS = ("exec", "portforward")
#: Reviews of oneself, which everybody may ask for.
SELF_REVIEWS = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}


@dataclass(frozen=True)
class Wish:
    """What somebody wants to do. `namespace` is empty for all of them, and for what lies in none."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def title(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class Grant:
    """One rule that holds for a user, and the sentence that says where it comes from."""

    rule: Json
    reason: str


class Authorizer:
    """Knows the users by their tokens, and their roles from the objects that are stored."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue
        self.users: dict[str, User] = {"admin": ADMIN}

    def user_of(self, headers: Mapping[str, str]) -> User:
        """Who sends a request; raises Refusal (401) for a token that nobody has."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if not token:
            return ANONYMOUS
        if kind.lower() != "bearer" or token not in self.users:
            raise unauthorized()
        return self.users[token]

    def check(self, call: Call) -> None:
        """Raise Refusal (403) where the user of a call may not do what it does."""
        user = call.user
        if call.resource.plural in SELF_REVIEWS and "system:authenticated" in user.groups:
            return
        name = "" if call.verb == "create" and not call.subresource else call.name
        where = call.name if call.resource.plural == "namespaces" else call.namespace
        wish = Wish(call.verb, call.resource.group, call.resource.plural, call.subresource, where, name)
        if call.subresource in STREAMS and self.reason(user, wish) is not None:
            wish = replace(wish, verb="create")
        if self.reason(user, wish) is None:
            scope = f'in the namespace "{where}"' if where else "at the cluster scope"
            why = f'User "{user.name}" cannot {wish.verb} resource "{wish.title}" in API group "{wish.group}" {scope}'
            raise forbidden(call.resource, name, why)

    def reason(self, user: User, wish: Wish) -> str | None:
        """Why a user may do something, None where they may not."""
        if "system:masters" in user.groups:
            return ""
        return next((grant.reason for grant in self.grants(user, wish.namespace) if _covers(grant.rule, wish)), None)

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """The rules that hold for a user in a namespace, or, for "", in all."""
        if "system:masters" in user.groups:
            yield Grant({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, "")
        for binding in self._store.all(self._catalogue.named("clusterrolebindings", RBAC)):
            yield from self._bound(binding, user, "")
        if namespace:
            for binding in self._store.all(self._catalogue.named("rolebindings", RBAC), namespace):
                yield from self._bound(binding, user, namespace)

    def _bound(self, binding: Json, user: User, namespace: str) -> Iterator[Grant]:
        subject = next((one for one in binding.get("subjects") or () if _is(one, user, namespace)), None)
        if subject is None:
            return
        reference = binding["roleRef"]
        local = reference["kind"] == "Role"
        roles = self._catalogue.named("roles" if local else "clusterroles", RBAC)
        role = self._store.get(roles, namespace if local else "", reference["name"])
        if role is None:
            return
        own = binding["metadata"]["name"]
        title = f'{binding["kind"]} "{own}/{namespace}"' if namespace else f'{binding["kind"]} "{own}"'
        whom = f'{subject["kind"]} "{subject["name"]}"'
        reason = f'RBAC: allowed by {title} of {reference["kind"]} "{reference["name"]}" to {whom}'
        for rule in role.get("rules") or ():
            yield Grant(rule, reason)


def _is(subject: Json, user: User, namespace: str) -> bool:
    kind, name = subject["kind"], subject["name"]
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return bool(name == user.name)


def _covers(rule: Json, wish: Wish) -> bool:
    if rule.get("resourceNames") and wish.name not in rule["resourceNames"]:
        return False
    titles = {wish.title, "*"} | ({f"*/{wish.subresource}"} if wish.subresource else set())
    return all(
        accepted & set(rule.get(key) or ())
        for key, accepted in (("verbs", {wish.verb, "*"}), ("apiGroups", {wish.group, "*"}), ("resources", titles))
    )
