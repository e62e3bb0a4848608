"""Whether an object may be stored as it is: unknown fields by the wish of the client, then schema and rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.kubernetes_server.defaults import complete
from tests.kubernetes_server.refusals import Cause, Refusal, bad_request, invalid
from tests.kubernetes_server.resources import Resource
from tests.kubernetes_server.rules import broken, changed_though_fixed
from tests.kubernetes_server.schemas import causes, changed_though_immutable, fill, prune, schema_of

Json = dict[str, Any]
MODES = ("Ignore", "Warn", "Strict")


@dataclass(frozen=True)
class Accepted:
    """An object without what is unknown, and what the client is warned of."""

    obj: Json
    warnings: tuple[str, ...] = ()


def decoded(resource: Resource, body: Json, mode: str, *, patch: str | None = None) -> Accepted:
    """Drop what is unknown in a body, or refuse it; `patch` is the text of the patch that the body comes of.

    Raises Refusal: 400 for a body under Strict, 422 for a patch.
    """
    mode = mode or "Warn"
    if mode not in MODES:
        known = ", ".join(f'"{one}"' for one in MODES)
        raise bad_request(f'fieldValidation: Unsupported value: "{mode}": supported values: {known}')
    schema = schema_of(resource)
    found = [f'unknown field "{path}"' for path in prune(body, schema)] if schema else []
    if found and mode == "Strict":
        why = f"strict decoding error: {', '.join(found)}"
        if patch is not None:
            raise Refusal(422, "Invalid", f' "" is invalid: patch: Invalid value: {patch!r}: {why}')
        raise _undecodable(resource, why)
    return Accepted(body, tuple(found) if mode == "Warn" else ())


def completed(resource: Resource, obj: Json) -> Json:
    """Check an object against its schema, and write its defaults into it; raises Refusal (400 or 422)."""
    schema = schema_of(resource)
    if resource.custom is not None:
        fill(obj, schema)
    wrong = list(causes(obj, schema))
    for cause in wrong:
        if cause.undecodable:
            raise _undecodable(resource, f"json: cannot unmarshal {cause.message} (field {cause.field})")
    if wrong:
        raise invalid(resource, obj["metadata"]["name"], wrong)
    return complete(resource.kind, obj) if resource.custom is None else obj


def check(resource: Resource, obj: Json, before: Json | None = None) -> None:
    """Check the rules of an object that is complete, new or in place of another; raises Refusal (422)."""
    wrong: list[Cause] = list(broken(resource, obj))
    if before is not None and resource.custom is None:
        wrong += changed_though_fixed(resource, before, obj)
    elif before is not None:
        wrong += changed_though_immutable(before, obj, schema_of(resource))
    if wrong:
        raise invalid(resource, obj["metadata"]["name"], wrong)


def _undecodable(resource: Resource, why: str) -> Refusal:
    kind = resource.kind
    return bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}')
