"""Rules of built-in kinds that their models do not hold: names, labels, enumerations, and what never changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.kubernetes_server.refusals import Cause
from tests.kubernetes_server.resources import Resource
from tests.kubernetes_server.schemas import unsupported

Json = dict[str, Any]
Rule = Callable[[Json, str], Iterator[Cause]]
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#: Kinds whose names are labels of the domain name system, without dots.
SHORT_NAMES = {"namespaces", "services"}
ENUMERATIONS = {
    "restartPolicy": ("Always", "OnFailure", "Never"), "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"), "completionMode": ("NonIndexed", "Indexed"),
    "podReplacementPolicy": ("Failed", "TerminatingOrFailed"), "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
}  # fmt: skip
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
POD_UPDATES = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def broken(resource: Resource, obj: Json) -> Iterator[Cause]:
    """Tell which rules an object breaks, whatever it was before."""
    yield from _metadata(resource, obj["metadata"])
    if resource.custom is None and resource.kind in _RULES:
        yield from _RULES[resource.kind](obj["spec"], "spec")


def changed_though_fixed(resource: Resource, before: Json, after: Json) -> Iterator[Cause]:
    """Tell what of a built-in object has changed though it never may."""
    old, new = before.get("spec"), after.get("spec")
    if resource.kind == "Pod" and _fixed(old) != _fixed(new):
        yield Cause("spec", "FieldValueForbidden", POD_UPDATES)
    if resource.kind == "Job" and old and new and not old.get("suspend"):
        for name in ("template", "completionMode", "selector"):
            if old.get(name) != new.get(name):
                yield Cause(f"spec.{name}", "FieldValueInvalid", "Invalid value: field is immutable")
    if resource.kind == "PersistentVolumeClaim" and _without(old, "resources") != _without(new, "resources"):
        why = "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
        why += "for bound claims"
        yield Cause("spec", "FieldValueForbidden", why)


def _metadata(resource: Resource, metadata: Json) -> Iterator[Cause]:
    name = metadata["name"]
    short = resource.custom is None and resource.plural in SHORT_NAMES
    pattern, longest = (_LABEL, 63) if short else (_SUBDOMAIN, 253)
    if resource.group != "rbac.authorization.k8s.io" and not re.fullmatch(pattern, name):
        which = "label" if short else "subdomain"
        letters = "'-'" if short else "'-' or '.'"
        why = f"a lowercase RFC 1123 {which} must consist of lower case alphanumeric characters, {letters}, "
        why += f"and must start and end with an alphanumeric character (regex used for validation is '{pattern}')"
        yield Cause("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {why}')
    if len(name) > longest:
        why = f'Invalid value: "{name}": must be no more than {longest} bytes'
        yield Cause("metadata.name", "FieldValueInvalid", why)
    yield from labels(metadata.get("labels") or {}, "metadata.labels")
    for key in metadata.get("annotations") or {}:
        yield from _key(key, "metadata.annotations")


def labels(found: Json, path: str) -> Iterator[Cause]:
    for key, value in found.items():
        yield from _key(key, path)
        if not re.fullmatch(_VALUE, value):
            why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            why += "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345'"
            why += f", regex used for validation is '{_VALUE}')"
            yield Cause(path, "FieldValueInvalid", f'Invalid value: "{value}": {why}')
        elif len(value) > 63:
            yield Cause(path, "FieldValueInvalid", f'Invalid value: "{value}": must be no more than 63 bytes')


def _key(key: str, path: str) -> Iterator[Cause]:
    prefix, _, name = key.rpartition("/")
    if not re.fullmatch(_NAME, name) or len(name) > 63:
        why = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        why += "alphanumeric character, and must be no more than 63 bytes"
        yield Cause(path, "FieldValueInvalid", f'Invalid value: "{key}": {why}')
    if prefix and not re.fullmatch(_SUBDOMAIN, prefix):
        why = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        why += "'-' or '.'"
        yield Cause(path, "FieldValueInvalid", f'Invalid value: "{key}": {why}')


def _pod(spec: Json, path: str) -> Iterator[Cause]:
    yield from _enumerations(spec, path)
    if not spec.get("containers"):
        yield Cause(f"{path}.containers", "FieldValueRequired", "Required value")
    volumes = [volume.get("name") for volume in spec.get("volumes") or ()]
    names: list[str] = []
    for group in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(group) or ()):
            where = f"{path}.{group}[{number}]"
            yield from _enumerations(container, where)
            if container["name"] in names:
                why = f'Duplicate value: "{container["name"]}"'
                yield Cause(f"{where}.name", "FieldValueDuplicate", why)
            names.append(container["name"])
            if not container.get("image"):
                yield Cause(f"{where}.image", "FieldValueRequired", "Required value")
            for at, mount in enumerate(container.get("volumeMounts") or ()):
                if mount["name"] not in volumes:
                    why = f'Not found: "{mount["name"]}"'
                    yield Cause(f"{where}.volumeMounts[{at}].name", "FieldValueNotFound", why)


def _job(spec: Json, path: str) -> Iterator[Cause]:
    yield from _enumerations(spec, path)
    template = spec["template"].get("spec") or {}
    yield from _pod(template, f"{path}.template.spec")
    if template.get("restartPolicy") == "Always":
        why = 'Required value: valid values: "OnFailure", "Never"'
        yield Cause(f"{path}.template.spec.restartPolicy", "FieldValueRequired", why)
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and spec.get("completions") is None:
        why = "Required value: when completion mode is Indexed"
        yield Cause(f"{path}.completions", "FieldValueRequired", why)
    if not indexed and "backoffLimitPerIndex" in spec:
        why = f"Invalid value: {spec['backoffLimitPerIndex']}: requires indexed completion mode"
        yield Cause(f"{path}.backoffLimitPerIndex", "FieldValueInvalid", why)
    if "podFailurePolicy" in spec and spec.get("podReplacementPolicy") != "Failed":
        yield unsupported(f"{path}.podReplacementPolicy", spec.get("podReplacementPolicy"), ["Failed"])


def _cron_job(spec: Json, path: str) -> Iterator[Cause]:
    yield from _enumerations(spec, path)
    yield from _job(spec["jobTemplate"]["spec"], f"{path}.jobTemplate.spec")


def _claim(spec: Json, path: str) -> Iterator[Cause]:
    if not spec.get("accessModes"):
        yield Cause(f"{path}.accessModes", "FieldValueRequired", "Required value: at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        if mode not in ACCESS_MODES:
            yield unsupported(f"{path}.accessModes", mode, ACCESS_MODES)
    if not (spec.get("resources") or {}).get("requests", {}).get("storage"):
        yield Cause(f"{path}.resources[storage]", "FieldValueRequired", "Required value")


def _enumerations(spec: Json, path: str) -> Iterator[Cause]:
    for name, supported in ENUMERATIONS.items():
        if name in spec and spec[name] not in supported and not (name == "restartPolicy" and "image" in spec):
            yield unsupported(f"{path}.{name}", spec[name], supported)


def _fixed(spec: Json | None) -> Json:
    """What of a pod's specification never changes."""
    changing = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName", "schedulingGates")
    kept = _without(spec, *changing)
    for group in ("containers", "initContainers"):
        kept[group] = [_without(container, "image") for container in kept.get(group) or ()]
    return kept


def _without(obj: Json | None, *names: str) -> Json:
    return {key: value for key, value in (obj or {}).items() if key not in names}


_RULES: dict[str, Rule] = {"Pod": _pod, "Job": _job, "CronJob": _cron_job, "PersistentVolumeClaim": _claim}
