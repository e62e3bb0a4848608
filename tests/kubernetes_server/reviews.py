"""What a user may ask about themselves: whether something is allowed, which rules hold, and who they are."""

from __future__ import annotations

from typing import Any

from tests.kubernetes_server.authorization import Authorizer, Wish
from tests.kubernetes_server.calls import Call, User
from tests.kubernetes_server.refusals import Cause, invalid

Json = dict[str, Any]


def review(call: Call, body: Json, authorizer: Authorizer) -> Json:
    """The body of a review with its answer in `status`; raises Refusal for one that asks nothing."""
    spec, user = body.get("spec") or {}, call.user
    if call.resource.kind == "SelfSubjectReview":
        status: Json = {"userInfo": {"username": user.name, "groups": list(user.groups)}}
    elif call.resource.kind == "SelfSubjectRulesReview":
        if not spec.get("namespace"):
            raise invalid(call.resource, "", [Cause("spec.namespace", "FieldValueRequired", "Required value")])
        status = _rules(user, spec["namespace"], authorizer)
    else:
        status = _access(call, spec, authorizer)
    return body | {"metadata": {"creationTimestamp": None}, "status": status}


def _access(call: Call, spec: Json, authorizer: Authorizer) -> Json:
    user = call.user
    wanted = spec.get("resourceAttributes")
    if wanted is None:
        if "nonResourceAttributes" in spec:
            return {"allowed": "system:masters" in user.groups}
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = Cause("spec.resourceAttributes", "FieldValueInvalid", f"Invalid value: null: {why}")
        raise invalid(call.resource, "", [cause])
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    reason = authorizer.reason(user, Wish(**{name: wanted.get(name, "") for name in names}))
    return {"allowed": reason is not None} | ({"reason": reason} if reason else {})


def _rules(user: User, namespace: str, authorizer: Authorizer) -> Json:
    rules = [grant.rule for grant in authorizer.grants(user, namespace)]
    keys = ("verbs", "apiGroups", "resources", "resourceNames")
    found = [{key: rule[key] for key in keys if key in rule} for rule in rules if "resources" in rule]
    return {"resourceRules": found, "nonResourceRules": [], "incomplete": False}
