"""What a client reads before it asks for objects: the version, the groups, and the resources of each."""

from __future__ import annotations

from typing import Any

from tests.kubernetes_server.resources import Catalogue, Resource

Json = dict[str, Any]
VERSION = {
    "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "clean",
    "buildDate": "2026-04-22T00:00:00Z", "goVersion": "go1.26.0", "compiler": "gc", "platform": "linux/amd64",
}  # fmt: skip
HEALTH = ("/healthz", "/livez", "/readyz")


def discover(path: str, catalogue: Catalogue) -> Json | str | None:
    """What lies at a path that names no objects; None where nothing does."""
    parts = [part for part in path.split("/") if part]
    if path in HEALTH:
        return "ok"
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return _resources("", "v1", catalogue)
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in catalogue.groups().items()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in catalogue.groups():
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, catalogue.groups()[group])
        case ["apis", group, version] if version in catalogue.groups().get(group, ()):
            return _resources(group, version, catalogue)
    return None


def _group(name: str, versions: list[str]) -> Json:
    named = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": named, "preferredVersion": named[0]}


def _resources(group: str, version: str, catalogue: Catalogue) -> Json:
    found = [resource for resource in catalogue if (resource.group, resource.version) == (group, version)]
    entries = [entry for resource in found for entry in _entries(resource)]
    title = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": title, "resources": entries}


def _entries(resource: Resource) -> list[Json]:
    own = {"name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced}
    own |= {"kind": resource.kind, "verbs": list(resource.verbs)}
    if resource.short_names:
        own["shortNames"] = list(resource.short_names)
    return [own] + [
        {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced,
         "kind": resource.kind, "verbs": ["get", "patch", "update"] if name == "status" else ["create", "get"]}
        for name in sorted(resource.subresources)
    ]  # fmt: skip
