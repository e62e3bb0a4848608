"""Label selectors and field selectors, as the query of a list or a watch has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.kubernetes_server.refusals import bad_request

Condition = Callable[[Mapping[str, Any]], bool]
_KEY = r"(?P<key>[A-Za-z0-9./_-]+)"
_SET = re.compile(rf"{_KEY}\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(rf"{_KEY}\s*(?P<op>==|=|!=)\s*(?P<value>[A-Za-z0-9._-]*)")
_EXISTS = re.compile(rf"(?P<op>!?)\s*{_KEY}")

#: The fields that every kind can be selected by, and those of some kinds.
FIELDS = {"metadata.name", "metadata.namespace"}
MORE_FIELDS = {
    "pods": {"status.phase", "spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.podIP"},
    "events": {"involvedObject.name", "involvedObject.uid", "involvedObject.kind", "involvedObject.namespace",
               "reason", "type"},
    "jobs": {"status.successful"},
    "namespaces": {"status.phase"},
    "nodes": {"spec.unschedulable"},
    "secrets": {"type"},
}  # fmt: skip


def selected_by(labels: str, fields: str, *, plural: str) -> Condition:
    """Tell which objects two selectors mean together; a selector that cannot be read is a bad request."""
    conditions = [*_label_conditions(labels), *_field_conditions(fields, plural)]
    return lambda obj: all(condition(obj) for condition in conditions)


def _split(selector: str) -> list[str]:
    """The requirements of a selector: commas within parentheses do not part them."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def _label_conditions(selector: str) -> list[Condition]:
    return [_label_condition(part, selector) for part in _split(selector)]


def _label_condition(part: str, selector: str) -> Condition:
    def labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
        return obj["metadata"].get("labels") or {}

    if found := _SET.fullmatch(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda obj: labels(obj).get(key) in values
        return lambda obj: labels(obj).get(key) not in values
    if found := _EQUAL.fullmatch(part):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda obj: labels(obj).get(key) != value
        return lambda obj: labels(obj).get(key) == value
    if found := _EXISTS.fullmatch(part):
        key = found["key"]
        if found["op"]:
            return lambda obj: key not in labels(obj)
        return lambda obj: key in labels(obj)
    raise bad_request(f"unable to parse requirement: found '{part}' in label selector {selector!r}")


def _field_conditions(selector: str, plural: str) -> list[Condition]:
    return [_field_condition(part, plural) for part in _split(selector)]


def _field_condition(part: str, plural: str) -> Condition:
    found = re.fullmatch(r"(?P<path>[^=!]+)(?P<op>==|=|!=)(?P<value>.*)", part)
    if not found:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, value, negated = found["path"], found["value"], found["op"] == "!="
    if path not in FIELDS | MORE_FIELDS.get(plural, set()):
        raise bad_request(f"field label not supported: {path}")
    return lambda obj: (_at(obj, path) == value) != negated


def _at(obj: Mapping[str, Any], path: str) -> str:
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
