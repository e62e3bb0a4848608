"""The answers of an API server that are errors: one exception, made in the sentences of the real server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.kubernetes_server.resources import Resource

Json = dict[str, Any]


@dataclass(frozen=True)
class Cause:
    """What is wrong with one field. `undecodable` says that a built-in kind cannot be read at all with this value."""

    field: str
    reason: str
    message: str
    undecodable: bool = False

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Refusal(Exception):
    """A request that is answered with a Status of failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.headers = dict(headers or {})

    def status(self) -> Json:
        """The object of kind Status that a client reads."""
        status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status |= {"message": self.message, "reason": self.reason, "code": self.code}
        return status | ({"details": self.details} if self.details else {})


def _about(resource: Resource, name: str) -> Json:
    about = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in about.items() if value}


def not_found(resource: Resource, name: str) -> Refusal:
    return Refusal(404, "NotFound", f'{resource.title} "{name}" not found', details=_about(resource, name))


def already_exists(resource: Resource, name: str) -> Refusal:
    message = f'{resource.title} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, details=_about(resource, name))


CHANGED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = CHANGED) -> Refusal:
    message = f'Operation cannot be fulfilled on {resource.title} "{name}": {why}'
    return Refusal(409, "Conflict", message, details=_about(resource, name))


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> Refusal:
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    said = list(dict.fromkeys(str(cause) for cause in causes))
    message = f'{kind} "{name}" is invalid: ' + (said[0] if len(said) == 1 else f"[{', '.join(said)}]")
    details = _about(resource, name) | {"kind": resource.kind}
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return Refusal(422, "Invalid", message, details=details)


def forbidden(resource: Resource, name: str, why: str, *, code: int = 403, reason: str = "Forbidden") -> Refusal:
    whom = f'{resource.title} "{name}"' if name else resource.title
    return Refusal(code, reason, f"{whom} is forbidden: {why}", details=_about(resource, name))


def not_allowed() -> Refusal:
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> Refusal:
    """The resource version that was asked for is compacted."""
    return Refusal(410, "Expired", message)


def too_many_requests(seconds: int = 1) -> Refusal:
    message = "the server has received too many requests and has asked us to try again later"
    details = {"retryAfterSeconds": seconds}
    return Refusal(429, "TooManyRequests", message, details=details, headers={"Retry-After": str(seconds)})


def timed_out() -> Refusal:
    why = "request did not complete within requested timeout - context deadline exceeded"
    return Refusal(504, "Timeout", f"Timeout: {why}")


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    why = "the body of the request was in an unknown format - accepted media types include: "
    return Refusal(415, "UnsupportedMediaType", why + ", ".join(accepted))


def webhook_denied(webhook: str, why: str) -> Refusal:
    """What an admission webhook that is there refuses."""
    return Refusal(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {why}')


def webhook_absent(webhook: str, address: str) -> Refusal:
    """What comes of a webhook whose controller is down, where its policy is to fail."""
    why = f'failed calling webhook "{webhook}": failed to call webhook: Post "https://{address}": '
    why += "dial tcp: connect: connection refused"
    return Refusal(500, "InternalError", f"Internal error occurred: {why}")


def policy_denied(resource: Resource, name: str, policy: str, why: str) -> Refusal:
    """What a ValidatingAdmissionPolicy refuses; its binding is called as it is."""
    said = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {why}"
    return forbidden(resource, name, said, code=422, reason="Invalid")
