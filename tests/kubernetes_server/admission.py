"""What refuses an object that is right in itself: quotas, and the hooks of whoever guards the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.kubernetes_server.calls import Call, User
from tests.kubernetes_server.refusals import forbidden, policy_denied, webhook_absent, webhook_denied
from tests.kubernetes_server.resources import Catalogue, Resource
from tests.kubernetes_server.store import Store

Json = dict[str, Any]
SUFFIXES = {"m": Fraction(1, 1000), "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
            "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """A change that is about to be made. `before` is None for a new object, `after` for one that is deleted."""

    verb: str
    user: User
    resource: Resource
    namespace: str
    before: Json | None
    after: Json | None

    @property
    def obj(self) -> Json:
        return self.after or self.before or {}

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])


#: Raises Refusal for what it does not admit.
Hook = Callable[[Attempt], None]


class Admission:
    """All hooks, in the order in which they were added, and then the quotas."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue
        self.hooks: list[Hook] = []

    def admit(self, call: Call, before: Json | None, after: Json | None) -> None:
        """Raise Refusal for a change that is not admitted."""
        if call.subresource not in ("", "eviction"):
            return
        verb = "delete" if after is None else "create" if before is None else "update"
        attempt = Attempt(verb, call.user, call.resource, call.namespace, before, after)
        for hook in self.hooks:
            hook(attempt)
        if verb == "create" and call.resource.key == ("", "pods"):
            self._within_quotas(attempt)

    def _within_quotas(self, attempt: Attempt) -> None:
        pods = [pod for pod in self._store.all(attempt.resource, attempt.namespace) if _counts(pod)]
        for quota in self._store.all(self._catalogue.named("resourcequotas"), attempt.namespace):
            hard = (quota.get("spec") or {}).get("hard") or {}
            name = quota["metadata"]["name"]
            asked = {key: value for key in hard if (value := _amount(attempt.obj, key)) is not None}
            missing = [key for key in hard if _is_compute(key) and key not in asked]
            if missing:
                first = attempt.obj["spec"]["containers"][0]["name"]
                wanted = ",".join(f"{key} for: {first}" for key in missing)
                raise forbidden(attempt.resource, attempt.name, f"failed quota: {name}: must specify {wanted}")
            used = {key: sum((_amount(pod, key) or Fraction(0) for pod in pods), Fraction(0)) for key in asked}
            over = [key for key in sorted(asked) if used[key] + asked[key] > quantity(hard[key])]
            if over:
                parts = [
                    f"{word}: {','.join(f'{key}={_shown(amounts[key], key)}' for key in over)}"
                    for word, amounts in (("requested", asked), ("used", used))
                ]
                parts.append("limited: " + ",".join(f"{key}={hard[key]}" for key in over))
                why = f"exceeded quota: {name}, {', '.join(parts)}"
                raise forbidden(attempt.resource, attempt.name, why)


def quantity(text: str | int | float) -> Fraction:
    """A quantity as Kubernetes writes it; raises ValueError for what is none."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    if not found or found[2] not in SUFFIXES:
        raise ValueError(f"{text!r} is no quantity")
    return Fraction(found[1]) * SUFFIXES[found[2]]


def webhook(name: str, plural: str, refuses: Callable[[Attempt], str | None]) -> Hook:
    """A webhook: `refuses` gives the reason for which it refuses an object, or None."""

    def hook(attempt: Attempt) -> None:
        if attempt.resource.plural == plural and (why := refuses(attempt)):
            raise webhook_denied(name, why)

    return hook


def absent_webhook(name: str, plural: str, address: str = "webhook.default.svc:443") -> Hook:
    """A webhook whose controller is down, and whose policy is to fail: it lets through no change at all."""

    def hook(attempt: Attempt) -> None:
        if attempt.resource.plural == plural and attempt.verb != "delete":
            raise webhook_absent(name, address)

    return hook


def policy(name: str, group: str, refuses: Callable[[Attempt], str | None]) -> Hook:
    """A ValidatingAdmissionPolicy for new objects of a group."""

    def hook(attempt: Attempt) -> None:
        if attempt.resource.group == group and attempt.verb == "create" and (why := refuses(attempt)):
            raise policy_denied(attempt.resource, attempt.name, name, why)

    return hook


def _counts(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _is_compute(key: str) -> bool:
    return key in ("cpu", "memory") or key.startswith(("requests.", "limits."))


def _amount(pod: Json, key: str) -> Fraction | None:
    """How much of what a quota counts a pod needs; None where it does not say."""
    if key in ("pods", "count/pods"):
        return Fraction(1)
    if not _is_compute(key):
        return None
    kind, _, name = key.rpartition(".")
    if key.startswith(("requests.", "limits.")):
        kind, _, name = key.partition(".")
    found = list(_amounts(pod, kind or "requests", name))
    return sum(found, Fraction(0)) if found else None


def _amounts(pod: Json, kind: str, name: str) -> Iterator[Fraction]:
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        wanted = resources.get(kind) or {}
        if kind == "requests":
            wanted = (resources.get("limits") or {}) | wanted
        if name in wanted:
            yield quantity(wanted[name])


def _shown(amount: Fraction, key: str) -> str:
    if amount.denominator != 1:
        return f"{int(amount * 1000)}m"
    if "memory" in key:
        for suffix in ("Gi", "Mi", "Ki"):
            if amount and amount % SUFFIXES[suffix] == 0:
                return f"{int(amount / SUFFIXES[suffix])}{suffix}"
    return str(int(amount))
