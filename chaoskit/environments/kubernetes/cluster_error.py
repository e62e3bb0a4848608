"""`ClusterError`: what the API server refuses, or why it does not answer, as one sentence with a remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from chaoskit.environments.kubernetes.access_rule import AccessRule
from chaoskit.errors import ChaoskitError, ExitCode

#: The server was busy, or something between it and us had failed: the same request may succeed a moment later.
_PASSING = (429, 502, 503, 504)
#: Who sends these may not do what he asks for.
_CREDENTIALS = (401, 403)
#: How the server says that something of the cluster does not admit an object, and the name of it.
_REFUSED = re.compile(
    r"""admission webhook "(?P<webhook>[^"]+)" denied the request|ValidatingAdmissionPolicy '(?P<policy>[^']+)' with """
    r"""binding '[^']+' denied request|violates PodSecurity "(?P<security>[^"]+)"|(?:exceeded|failed) quota: """
    r"""(?P<quota>[^,:]+)|failed calling webhook "(?P<absent>[^"]+)["]"""
)
_NO_NAMESPACE = re.compile(r'namespaces "([^"]+)" not found')
_TITLES = {
    "webhook": "the webhook", "policy": "the ValidatingAdmissionPolicy", "security": "the PodSecurity level",
    "quota": "the quota", "absent": "the webhook, which does not answer,",
}  # fmt: skip
#: Whoever sends no credentials at all, for instance because the login command of the kubeconfig has failed.
_ANONYMOUS = 'User "system:anonymous"'


class ClusterError(ChaoskitError):
    """A request that failed.

    `status` is that of HTTP, 0 if there was no answer; `reason` is the server's own word, such as `AlreadyExists`.
    `rule` would grant what was forbidden. A `passing` error may be gone a moment later, after `retry_after` seconds
    if the server named them.
    """

    def __init__(
        self,
        sentence: str,
        *,
        status: int = 0,
        reason: str = "",
        remedy: str = "",
        rule: AccessRule | None = None,
        passing: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{sentence}: {remedy}" if remedy else sentence)
        self.sentence = sentence
        self.status = status
        self.reason = reason
        self.remedy = remedy
        self.rule = rule
        self.passing = passing
        self.retry_after = retry_after
        is_refused = status in _CREDENTIALS or (status == 422 and bool(_REFUSED.search(sentence)))
        is_refused |= status == 404 and bool(_NO_NAMESPACE.search(sentence))
        self.exit_code = ExitCode.USAGE if is_refused else ExitCode.INTERNAL

    @property
    def lacks_permission(self) -> bool:
        """Whether `rule` would let this user do it: nothing else stands against it so far."""
        return self.rule is not None and "the permission is missing" in self.sentence


def of_answer(
    what: str, status: int, body: Any, headers: Mapping[str, str] | None = None, *, rule: AccessRule | None = None
) -> ClusterError:
    """The error for an answer that is not a success to a request that does `what` and needs `rule`."""
    told = _status_of(body)
    reason, message = str(told.get("reason") or ""), _line(told.get("message") or _text(body) or f"HTTP {status}")
    # None of our writes names a version, so a conflict is one between others.
    passing = status in _PASSING or reason == "Conflict"
    retry_after = _seconds((headers or {}).get("Retry-After"))
    sentence, remedy = f"cannot {what}: {message}", ""
    if status == 401 or (status == 403 and _ANONYMOUS in message):
        sentence = f"cannot {what}: the cluster does not accept the credentials of this context"
        remedy = "log in to the cluster again; if a token has expired, fetch a new one"
    elif status == 403 and rule is not None and f'cannot {rule.verbs[0]} resource "' in message:
        sentence, remedy = f"cannot {what}: the permission is missing", f"add to a Role of the namespace: {rule}"
    elif status == 403 and "exceeded quota" in message:
        remedy = "free what the namespace holds, or ask for a larger quota"
    elif "failed quota" in message:
        remedy = "give the pods those resources: resources in [tool.chaoskit.kubernetes]"
    elif "failed calling webhook" in message:
        remedy = "the controller of that webhook does not answer: check that its pods run"
    elif status == 404 and (lacking := _NO_NAMESPACE.search(message)):
        remedy = f"name another namespace, or make it: kubectl create namespace {lacking[1]}"
    elif _REFUSED.search(message):
        remedy = "change what it names, or have the rules of the cluster admit what chaoskit makes in this namespace"
    elif status == 429 and "disruption budget" in message:
        sentence += "".join(f" {each}" for each in _causes(told))
        remedy = (
            "have that PodDisruptionBudget leave out pods with the label chaoskit.dev/run, or let it allow a disruption"
        )
    elif status in _PASSING:
        remedy = "the cluster is busy or is being restarted; try again later"
    return ClusterError(
        sentence,
        status=status,
        reason=reason,
        remedy=remedy,
        rule=rule if status == 403 and _ANONYMOUS not in message else None,
        passing=passing or (status >= 500 and retry_after is not None),
        retry_after=retry_after,
    )


def _causes(told: Mapping[str, Any]) -> list[str]:
    """What a Status names as the causes of a refusal."""
    causes = (told.get("details") or {}).get("causes") or ()
    return [_line(str(each["message"])) for each in causes if each.get("message")]


def of_failure(what: str, server: str, error: Exception) -> ClusterError:
    """The error for a request that does `what` and got no answer from `server`."""
    said = _line(str(error))
    if "certificate" in said.lower():
        remedy = "check certificate-authority of this cluster in the kubeconfig"
        return ClusterError(f"cannot {what}: the certificate of {server} is not valid here ({said})", remedy=remedy)
    sentence = f"cannot {what}: the API server at {server} does not answer ({type(error).__name__})"
    remedy = "check that the cluster runs, and that this machine reaches it (network, VPN, proxy)"
    return ClusterError(sentence, remedy=remedy, passing=True)


def who_refuses(error: ClusterError) -> str:
    """What of the cluster does not admit an object, by kind and name; "" if the error is none of that."""
    found = _REFUSED.search(error.sentence)
    if found is None:
        return ""
    kind = next(name for name, value in found.groupdict().items() if value)
    return f"{_TITLES[kind]} {found[kind]!r}"


def _status_of(body: Any) -> Mapping[str, Any]:
    """The object `Status` that the server sends with an error; empty if something else answered."""
    with suppress(ValueError, TypeError):
        told = json.loads(body)
        if isinstance(told, dict):
            return told
    return {}


def _text(body: Any) -> str:
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    return text[:200]


def _line(text: str) -> str:
    return " ".join(text.split())


def _seconds(text: str | None) -> float | None:
    """The header `Retry-After`; the API server sends whole seconds."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
