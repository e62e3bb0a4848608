"""What a pod's containers are told of the pod itself, of config maps and of secrets; and references to variables."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes_server.control_plane import ControlPlane

Json = dict[str, Any]
_REFERENCE = re.compile(r"\$(\$|\(([^()]+)\))")
_OF_A_MAP = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class Missing(Exception):
    """A config map, a secret or a key that is not there; `str` is the kubelet's sentence."""


@dataclass(frozen=True)
class PodValues:
    """The values of one pod, whose address is known by now."""

    pod: Json
    address: str
    host: str
    plane: ControlPlane
    given: Mapping[str, str] = field(default_factory=dict)

    def env(self, container: Json) -> dict[str, str]:
        """The variables of a container. Raises Missing."""
        found: dict[str, str] = dict(self.given)
        for source in container.get("envFrom") or ():
            for word, plural in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
                if word in source:
                    data = self.data(plural, source[word]["name"], optional=source[word].get("optional", False))
                    prefix = source.get("prefix", "")
                    found |= {prefix + key: value.decode() for key, value in data.items()}
        for one in container.get("env") or ():
            value = self._value(one)
            if value is not None:
                found[one["name"]] = expand(value, found) if "value" in one else value
        return found

    def field(self, path: str) -> str:
        """A field of the pod, as the downward API gives it. Raises Missing for one that it does not give."""
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if found := _OF_A_MAP.fullmatch(path):
            return str((metadata.get(found[1]) or {}).get(found[2], ""))
        known: dict[str, Callable[[], Any]] = {
            "metadata.name": lambda: metadata["name"], "metadata.namespace": lambda: metadata["namespace"],
            "metadata.uid": lambda: metadata["uid"], "spec.nodeName": lambda: spec["nodeName"],
            "spec.serviceAccountName": lambda: spec["serviceAccountName"],
            "status.podIP": lambda: self.address, "status.podIPs": lambda: self.address,
            "status.hostIP": lambda: self.host, "status.hostIPs": lambda: self.host,
            "metadata.labels": lambda: _lines(metadata.get("labels") or {}),
            "metadata.annotations": lambda: _lines(metadata.get("annotations") or {}),
        }  # fmt: skip
        if path not in known:
            raise Missing(f"unsupported fieldPath: {path}")
        return str(known[path]())

    def data(self, plural: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
        """The content of a config map or a secret. Raises Missing."""
        found = self.plane.get(plural, self.pod["metadata"]["namespace"], name)
        if found is None:
            if optional:
                return {}
            raise Missing(f'{plural[:-1]} "{name}" not found')
        plain = found.get("data") or {}
        encoded = found.get("binaryData") or {}
        if plural == "secrets":
            plain, encoded = found.get("stringData") or {}, plain
        decoded = {key: base64.b64decode(value) for key, value in encoded.items()}
        return {key: value.encode() for key, value in plain.items()} | decoded

    def _value(self, one: Json) -> str | None:
        if "valueFrom" not in one:
            return str(one.get("value", ""))
        source = one["valueFrom"]
        if "fieldRef" in source:
            return self.field(source["fieldRef"]["fieldPath"])
        for word, plural in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
            if word in source:
                wanted = source[word]
                optional = wanted.get("optional", False)
                data = self.data(plural, wanted["name"], optional=optional)
                if wanted["key"] in data:
                    return data[wanted["key"]].decode()
                if optional:
                    return None
                kind = "ConfigMap" if plural == "configmaps" else "Secret"
                where = f"{self.pod['metadata']['namespace']}/{wanted['name']}"
                raise Missing(f"couldn't find key {wanted['key']} in {kind} {where}")
        raise Missing(f"unsupported source of variable {one['name']}")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """A text with the values of `$(NAME)` in place; `$$` is a dollar, and what nobody knows stays as it is."""
    return _REFERENCE.sub(lambda found: "$" if found[1] == "$" else variables.get(found[2], found[0]), text)


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
