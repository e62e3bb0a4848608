"""Lists of objects, in pages where the client asks for pages: all pages show the same moment."""

from __future__ import annotations

import secrets
from typing import Any

from tests.kubernetes_server.calls import Call
from tests.kubernetes_server.refusals import Cause, Refusal, bad_request, expired
from tests.kubernetes_server.selectors import Condition, selected_by
from tests.kubernetes_server.store import Store

Json = dict[str, Any]
TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


class Lists:
    """Answers to lists. A page that is still to come is kept under the token that asks for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages: dict[str, tuple[int, list[Json]]] = {}

    def list(self, call: Call) -> Json:
        """The list that a call asks for; raises Refusal (410) for a page of a moment that is compacted."""
        version_of(call, self._store)
        limit, token = call.number_of("limit") or 0, call.query.get("continue", "")
        if token:
            version, found = self._continued(token)
        else:
            wanted = condition_of(call)
            version = self._store.version
            found = [obj for obj in self._store.all(call.resource, call.namespace) if wanted(obj)]
        metadata: Json = {"resourceVersion": str(version)}
        page = found[:limit] if limit else found
        if len(found) > len(page):
            metadata["continue"] = secrets.token_urlsafe(12)
            self._pages[metadata["continue"]] = (version, found[len(page) :])
            if not (call.query.get("labelSelector") or call.query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(found) - len(page)
        kind = {"kind": f"{call.resource.kind}List", "apiVersion": call.resource.api_version, "metadata": metadata}
        return kind | {"items": [_item(call, obj) for obj in page]}

    def _continued(self, token: str) -> tuple[int, list[Json]]:
        if token not in self._pages:
            raise bad_request("continue key is not valid: invalid continue token")
        version, found = self._pages[token]
        if version < self._store.compacted:
            raise expired(TOO_OLD)
        return version, found


def condition_of(call: Call) -> Condition:
    """Which objects the selectors of a call mean."""
    labels, fields = call.query.get("labelSelector", ""), call.query.get("fieldSelector", "")
    return selected_by(labels, fields, plural=call.resource.plural)


def version_of(call: Call, store: Store) -> int:
    """The resource version that a call names, 0 for none; raises Refusal for one that is none, or of the future."""
    text = call.query.get("resourceVersion", "")
    if not text.isdigit() and text:
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'resourceVersion: Invalid value: "{text}": {why}')
    version = int(text or 0)
    if version > store.version:
        why = f"Too large resource version: {version}, current: {store.version}"
        cause = Cause("", "ResourceVersionTooLarge", "Too large resource version")
        details = {"causes": [{"reason": cause.reason, "message": cause.message}], "retryAfterSeconds": 1}
        raise Refusal(504, "Timeout", f"Timeout: {why}", details=details)
    return version


def _item(call: Call, obj: Json) -> Json:
    """In lists the objects of built-in kinds do not name their kind."""
    if call.resource.custom is not None:
        return obj
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
