"""What objects may hold: one kind of schema for custom resources and for the kinds of the official client's models."""

from __future__ import annotations

import functools
import json
import math
import re
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from tests.kubernetes_server.refusals import Cause
from tests.kubernetes_server.resources import Resource

Json = dict[str, Any]
Schema = Mapping[str, Any]
#: Of these maps the values are quantities, which may be numbers though the models say strings.
QUANTITIES = {"limits", "requests", "hard", "used", "capacity", "allocatable", "overhead"}
_PLAIN = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_KEEPS_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"


def schema_of(resource: Resource) -> Schema:
    """The schema of a whole object; {} where nothing is known of the kind."""
    if resource.custom is None:
        version = resource.version[0].upper() + resource.version[1:]
        name = "CoreV1Event" if resource.kind == "Event" else f"{version}{resource.kind}"
        return model_schema(name)
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"x-model": "V1ObjectMeta"}}
    return {**resource.custom, "properties": {**resource.custom.get("properties", {}), **own}}


@functools.cache
def model_schema(name: str) -> Schema:
    """The schema of a model of the official client. Nested models are named, since some hold themselves."""
    from kubernetes.client import models

    model = getattr(models, name, None)
    if model is None:
        return {}
    fields = {field.serialization_alias or name: field for name, field in model.model_fields.items()}
    kinds = {model.attribute_map[field]: kind for field, kind in model.openapi_types.items()}
    properties = {name: _of_type(kind, fields[name].annotation, name) for name, kind in kinds.items()}
    required = [name for name in kinds if fields[name].is_required()]
    return {"type": "object", "properties": properties, "required": required, "x-built-in": name}


def _of_type(kind: str, annotation: Any, name: str) -> Json:
    if found := re.fullmatch(r"List\[(.+)\]", kind):
        return {"type": "array", "items": _of_type(found[1], None, "")}
    if found := re.fullmatch(r"Dict\[str, (.+)\]", kind):
        inner = {} if name in QUANTITIES else _of_type(found[1], None, "")
        return {"type": "object", "additionalProperties": inner}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind == "datetime":
        return {"type": "string", "format": "date-time"}
    if kind == "object":
        choices = [one for one in typing.get_args(annotation) if one is not types.NoneType]
        return {_INT_OR_STRING: True} if len(choices) > 1 or typing.get_args(choices and choices[0]) else {}
    return {"x-model": kind}


def prune(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Take out of a value what its schema does not know, and each null; gives the paths of what is unknown."""
    schema = _resolved(schema)
    if isinstance(value, dict) and (schema.get("type") == "object" or "properties" in schema):
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
        for name in list(value):
            inner = properties.get(name, rest if isinstance(rest, Mapping) else None)
            if inner is None:
                if rest is not True and not schema.get(_KEEPS_UNKNOWN):
                    del value[name]
                    yield _join(path, name)
            elif value[name] is None and not _resolved(inner).get("nullable"):
                del value[name]
            else:
                yield from prune(value[name], inner, _join(path, name))
    elif isinstance(value, list) and "items" in schema:
        for number, one in enumerate(value):
            yield from prune(one, schema["items"], f"{path}[{number}]")


def fill(value: Any, schema: Schema) -> None:
    """Write the defaults of a schema into a value."""
    schema = _resolved(schema)
    if isinstance(value, dict):
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
        for name, inner in properties.items():
            if "default" in inner and name not in value:
                value[name] = inner["default"]
        for name in value:
            inner = properties.get(name, rest if isinstance(rest, Mapping) else None)
            if inner:
                fill(value[name], inner)
    elif isinstance(value, list) and "items" in schema:
        for one in value:
            fill(one, schema["items"])


def causes(value: Any, schema: Schema, path: str = "", *, built_in: bool = False) -> Iterator[Cause]:
    """Tell what in a value is not as its schema wants it."""
    schema = _resolved(schema)
    built_in = built_in or "x-built-in" in schema
    if value is None and schema.get("nullable"):
        return
    kind = schema.get("type")
    if (kind and not _is(value, kind)) or (schema.get(_INT_OR_STRING) and not _is(value, "integer", "string")):
        expected = kind or "integer,string"
        why = f'Invalid value: "{_type_of(value)}": {path} in body must be of type {expected}: "{_type_of(value)}"'
        yield Cause(path, "FieldValueTypeInvalid", why, undecodable=built_in)
        return
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    yield from _limits(value, schema, path)
    if isinstance(value, dict):
        yield from _of_object(value, schema, path, built_in)
    elif isinstance(value, list):
        yield from _of_list(value, schema, path, built_in)
    if "anyOf" in schema and not any(not list(causes(value, one, path)) for one in schema["anyOf"]):
        why = f"Invalid value: {_shown(value)}: {path} in body must validate at least one schema (anyOf)"
        yield Cause(path, "FieldValueInvalid", why)


def unsupported(path: str, value: Any, supported: Any) -> Cause:
    known = ", ".join(f'"{one}"' for one in supported)
    return Cause(path, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {known}")


def _of_object(value: Json, schema: Schema, path: str, built_in: bool) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield Cause(_join(path, name), "FieldValueRequired", "Required value")
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    for name, one in value.items():
        inner = properties.get(name, rest if isinstance(rest, Mapping) else None)
        if inner:
            yield from causes(one, inner, _join(path, name), built_in=built_in)


def _of_list(value: list[Any], schema: Schema, path: str, built_in: bool) -> Iterator[Cause]:
    for number, one in enumerate(value):
        yield from causes(one, schema.get("items", {}), f"{path}[{number}]", built_in=built_in)
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: list[Any] = []
    for number, one in enumerate(value):
        told = {key: one.get(key) for key in keys} if keys and isinstance(one, dict) else one
        if (keys or schema.get("x-kubernetes-list-type") == "set") and told in seen:
            yield Cause(f"{path}[{number}]", "FieldValueDuplicate", f"Duplicate value: {_shown(told)}")
        seen.append(told)


def _limits(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    def wrong(why: str) -> Cause:
        return Cause(path, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {path} in body {why}")

    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            yield wrong(f"should be at least {schema['minLength']} chars long")
        if len(value) > schema.get("maxLength", math.inf):
            yield Cause(path, "FieldValueTooLong", f"Too long: may not be more than {schema['maxLength']} bytes")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield wrong(f"should match '{schema['pattern']}'")
        if schema.get("format") == "date-time" and not _is_time(value):
            yield wrong(f'must be of type date-time: "{value}"')
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", -math.inf):
            yield wrong(f"should be greater than or equal to {schema['minimum']}")
        elif schema.get("exclusiveMinimum") and value == schema["minimum"]:
            yield wrong(f"should be greater than {schema['minimum']}")
        if value > schema.get("maximum", math.inf):
            yield wrong(f"should be less than or equal to {schema['maximum']}")
    elif isinstance(value, dict) and len(value) < schema.get("minProperties", 0):
        yield wrong(f"should have at least {schema['minProperties']} properties")
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield wrong(f"should have at least {schema['minItems']} items")
        if len(value) > schema.get("maxItems", math.inf):
            why = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
            yield Cause(path, "FieldValueTooMany", why)


def changed_though_immutable(before: Any, after: Any, schema: Schema, path: str = "") -> Iterator[Cause]:
    """The one rule of expressions that is known here: `self == oldSelf`, outside of lists."""
    schema = _resolved(schema)
    rules = [rule for rule in schema.get("x-kubernetes-validations", ()) if rule["rule"] == "self == oldSelf"]
    if rules and before != after:
        shown = _shown(after) if isinstance(after, str) else f'"{_type_of(after)}"'
        yield Cause(path, "FieldValueInvalid", f"Invalid value: {shown}: {rules[0].get('message', 'failed rule')}")
    if isinstance(before, dict) and isinstance(after, dict):
        for name, inner in schema.get("properties", {}).items():
            if name in before and name in after:
                yield from changed_though_immutable(before[name], after[name], inner, _join(path, name))


def _resolved(schema: Schema) -> Schema:
    return model_schema(schema["x-model"]) if "x-model" in schema else schema


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is(value: Any, *kinds: str) -> bool:
    return _type_of(value) in kinds or (_type_of(value) == "integer" and "number" in kinds)


def _type_of(value: Any) -> str:
    names = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return "T" in value


def _shown(value: Any) -> str:
    return json.dumps(value)
