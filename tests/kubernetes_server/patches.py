"""The three kinds of patches: merge, JSON patch, and the strategic merge of kinds that are built in."""

from __future__ import annotations

import copy
from typing import Any

from tests.kubernetes_server.refusals import Refusal, unsupported_media_type
from tests.kubernetes_server.resources import Resource

Json = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

#: The key that tells the items of a list apart; a list that is not here is replaced as a whole.
MERGE_KEYS = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "volumeDevices": "devicePath", "imagePullSecrets": "name", "hostAliases": "ip",
    "conditions": "type", "ownerReferences": "uid", "secrets": "name", "topologySpreadConstraints": "topologyKey",
    "replicatedJobs": "name",
}  # fmt: skip
#: Lists of plain values that a patch adds to.
MERGED_VALUES = ("finalizers",)


def patched(resource: Resource, obj: Json, patch: Any, media_type: str) -> Json:
    """The object with a patch applied; raises Refusal for a kind of patch that the resource does not take."""
    obj = copy.deepcopy(obj)
    if media_type == JSON_PATCH:
        return _json_patch(obj, patch)
    if media_type == MERGE:
        return _merge(obj, patch)
    if media_type == STRATEGIC and resource.custom is None:
        return _strategic(obj, patch)
    accepted = [JSON_PATCH, MERGE] + ([STRATEGIC] if resource.custom is None else [])
    raise unsupported_media_type(accepted)


def merged_by_keys(value: Any, patch: Any) -> Any:
    """A value with a patch by strategic merge."""
    return _strategic(copy.deepcopy(value), patch)


def _merge(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, wished in patch.items():
        if wished is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), wished)
    return merged


def _strategic(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: wished for key, wished in patch.items() if key != "$patch"}
    merged = dict(value) if isinstance(value, dict) else {}
    for key, wished in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [one for one in merged.get(name, []) if one not in wished]
        elif key.startswith("$"):
            continue
        elif wished is None:
            merged.pop(key, None)
        elif isinstance(wished, list):
            merged[key] = _strategic_list(key, merged.get(key) or [], wished)
        else:
            merged[key] = _strategic(merged.get(key), wished)
    return merged


def _strategic_list(name: str, values: list[Any], patch: list[Any]) -> list[Any]:
    if {"$patch": "replace"} in patch:
        return [one for one in patch if one != {"$patch": "replace"}]
    if name in MERGED_VALUES:
        return values + [one for one in patch if one not in values]
    key = MERGE_KEYS.get(name)
    if name == "ports":
        key = next((k for k in ("containerPort", "port") if any(k in one for one in [*values, *patch])), None)
    if key is None:
        return patch
    merged = {one.get(key): one for one in values}
    for wished in patch:
        if key not in wished:
            raise Refusal(400, "BadRequest", f"map: {wished} does not contain declared merge key: {key}")
        if wished.get("$patch") == "delete":
            merged.pop(wished[key], None)
        else:
            merged[wished[key]] = _strategic(merged.get(wished[key]), wished)
    return list(merged.values())


def _json_patch(obj: Any, operations: Any) -> Any:
    """RFC 6902, all or nothing."""
    if not isinstance(operations, list):
        raise Refusal(400, "BadRequest", "error decoding patch: a JSON patch is a list of operations")
    root = {"": obj}
    for operation in operations:
        try:
            _apply(root, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            why = f"the server rejected our request due to an error in our request: {error}"
            raise Refusal(422, "Invalid", why) from error
    return root[""]


def _apply(root: Json, operation: Json) -> None:
    verb, path = operation["op"], operation["path"]
    if verb in ("move", "copy"):
        value = copy.deepcopy(_read(root, operation["from"]))
        if verb == "move":
            _remove(root, operation["from"])
        _add(root, path, value)
    elif verb == "add":
        _add(root, path, operation["value"])
    elif verb == "remove":
        _remove(root, path)
    elif verb == "replace":
        _read(root, path)
        parent, key = _parent(root, path)
        parent[key] = operation["value"]
    elif verb == "test":
        if _read(root, path) != operation.get("value"):
            raise ValueError(f"testing value {path} failed")
    else:
        raise ValueError(f"unexpected kind: {verb}")


def _parent(root: Json, path: str) -> tuple[Any, Any]:
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]
    value: Any = root
    for part in way:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value, (len(value) if last == "-" else int(last)) if isinstance(value, list) else last


def _read(root: Json, path: str) -> Any:
    parent, key = _parent(root, path)
    return parent[key]


def _add(root: Json, path: str, value: Any) -> None:
    parent, key = _parent(root, path)
    if isinstance(parent, list):
        if key > len(parent):
            raise IndexError(f"index out of bounds: {path}")
        parent.insert(key, value)
    else:
        parent[key] = value


def _remove(root: Json, path: str) -> None:
    parent, key = _parent(root, path)
    del parent[key]
