"""How an object is made, changed and deleted: names, versions, generations, finalizers and periods of grace."""

from __future__ import annotations

import copy
import random
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.kubernetes_server.refusals import (
    Cause,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from tests.kubernetes_server.resources import Catalogue, Resource
from tests.kubernetes_server.store import Store

Json = dict[str, Any]
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
FINALIZER_OF = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
#: Its objects stay until they are empty.
NAMESPACES = ("", "namespaces")
#: The letters of generated names: none that could make a word.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: What a client cannot set: it stays as the server has it.
OF_THE_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(frozen=True)
class Deletion:
    """What a client asks for when it deletes; None is the default of the kind."""

    policy: str | None = None
    grace: int | None = None
    preconditions: dict[str, str] = field(default_factory=dict)


def now(*, later: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=later)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Lifecycle:
    """The changes that a client may ask for; each is made at once, or with `dry_run` only worked out."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    def existing(self, resource: Resource, namespace: str, name: str) -> Json:
        found = self._store.get(resource, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return found

    def create(self, resource: Resource, namespace: str, obj: Json, *, dry_run: bool = False) -> Json:
        """Store a new object; its name is there already."""
        name = obj["metadata"]["name"]
        self._namespace_takes_more(resource, namespace, name)
        if self._store.get(resource, namespace, name) is not None:
            raise already_exists(resource, name)
        return obj if dry_run else self._store.put(resource, obj)

    def replace(self, resource: Resource, before: Json, obj: Json, *, dry_run: bool = False) -> Json:
        """Store an object in place of the one that is there; what has no finalizer left and is deleted goes."""
        metadata = obj["metadata"]
        if obj == before:
            return obj
        if dry_run:
            return obj
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or resource.key == NAMESPACES
        stored = self._store.put(resource, obj)
        if "deletionTimestamp" in metadata and not held:
            self._store.remove(resource, metadata.get("namespace", ""), metadata["name"])
        return stored

    def delete(self, resource: Resource, obj: Json, how: Deletion, *, dry_run: bool = False) -> tuple[Json, bool]:
        """Delete an object, or mark it as deleted as long as something holds it. Gives it, and whether it is gone."""
        metadata = obj["metadata"]
        for name in ("uid", "resourceVersion"):
            wanted = how.preconditions.get(name, metadata[name])
            if wanted != metadata[name]:
                what = "UID" if name == "uid" else "ResourceVersion"
                why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {metadata[name]}"
                raise conflict(resource, metadata["name"], why)
        finalizers = _finalizers(resource, obj, how)
        grace = _grace(resource, obj, how)
        held = bool(finalizers) or grace > 0 or resource.key == NAMESPACES
        if resource.key == NAMESPACES:
            obj.setdefault("status", {})["phase"] = "Terminating"
        if dry_run:
            return obj, not held
        if not held:
            return self._store.remove(resource, metadata.get("namespace", ""), metadata["name"]), True
        if "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = now(later=grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if resource.counts_generations:
                metadata["generation"] = metadata.get("generation", 0) + 1
        if finalizers:
            metadata["finalizers"] = finalizers
        before = self.existing(resource, metadata.get("namespace", ""), metadata["name"])
        return self.replace(resource, before, obj), False

    def _namespace_takes_more(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        namespaces = self._catalogue.named("namespaces")
        found = self._store.get(namespaces, "", namespace)
        if found is None:
            raise not_found(namespaces, namespace)
        if "deletionTimestamp" in found["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource, name, why)


def newly_made(resource: Resource, namespace: str, body: Json) -> Json:
    """The object that a body asks for, with what only a server gives: a uid, a time, a generated name."""
    metadata = dict(body.get("metadata") or {})
    obj = body | {"metadata": metadata}
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for name in (*OF_THE_SERVER, "resourceVersion", "managedFields"):
        metadata.pop(name, None)
    if resource.namespaced:
        _same(metadata.setdefault("namespace", namespace), namespace)
    else:
        metadata.pop("namespace", None)
    if not metadata.get("name"):
        if not metadata.get("generateName"):
            why = "Required value: name or generateName is required"
            raise invalid(resource, "", [Cause("metadata.name", "FieldValueRequired", why)])
        metadata["name"] = metadata["generateName"] + "".join(random.choices(LETTERS, k=5))
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
    if resource.counts_generations:
        metadata["generation"] = 1
    if resource.has_status:
        obj.pop("status", None)
    return {"apiVersion": resource.api_version, "kind": resource.kind} | obj


def changed(resource: Resource, before: Json, body: Json, *, subresource: str = "") -> Json:
    """The object that comes of a body in place of what is there; raises Refusal for a version that is not the last."""
    obj = copy.deepcopy(body)
    metadata, had = obj.setdefault("metadata", {}), before["metadata"]
    name = had["name"]
    if metadata.setdefault("name", name) != name:
        sent = metadata["name"]
        raise bad_request(f"the name of the object ({sent}) does not match the name on the URL ({name})")
    _same(metadata.get("namespace", had.get("namespace", "")), had.get("namespace", ""))
    if metadata.get("uid", had["uid"]) != had["uid"]:
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {had['uid']}"
        raise conflict(resource, name, why)
    if metadata.get("resourceVersion", had["resourceVersion"]) != had["resourceVersion"]:
        raise conflict(resource, name)
    if subresource == "status":
        return copy.deepcopy(before) | ({"status": obj["status"]} if "status" in obj else {})
    for key in (*OF_THE_SERVER, "namespace", "resourceVersion"):
        metadata.pop(key, None)
        if key in had:
            metadata[key] = had[key]
    metadata.pop("managedFields", None)
    if resource.has_status:
        obj.pop("status", None)
        if "status" in before:
            obj["status"] = copy.deepcopy(before["status"])
    obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
    new = [f'"{one}"' for one in metadata.get("finalizers") or () if one not in had.get("finalizers", ())]
    if "deletionTimestamp" in had and new:
        why = "Forbidden: no new finalizers can be added if the object is being deleted, "
        why += f"found new finalizers []string{{{', '.join(new)}}}"
        raise invalid(resource, name, [Cause("metadata.finalizers", "FieldValueForbidden", why)])
    if resource.counts_generations and _counted(resource, obj) != _counted(resource, before):
        metadata["generation"] = had.get("generation", 0) + 1
    return obj


def _counted(resource: Resource, obj: Json) -> Json:
    """What a generation counts the changes of."""
    ignored = {"metadata", "status"} if resource.has_status else {"metadata"}
    return {key: value for key, value in obj.items() if key not in ignored}


def _same(sent: str, namespace: str) -> None:
    if sent != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _finalizers(resource: Resource, obj: Json, how: Deletion) -> list[str]:
    had = obj["metadata"].get("finalizers") or []
    policy = how.policy
    if policy is None and not {ORPHAN, FOREGROUND} & set(had) and resource.key == ("batch", "jobs"):
        policy = "Orphan"  # what the real server does where a client names no policy, for its oldest clients
    if policy is None:
        return list(had)
    kept = [one for one in had if one not in (ORPHAN, FOREGROUND)]
    return kept + ([FINALIZER_OF[policy]] if policy in FINALIZER_OF else [])


def _grace(resource: Resource, obj: Json, how: Deletion) -> int:
    """Seconds until a pod may go; a kubelet, where there is one, deletes it again with 0."""
    if resource.key != ("", "pods"):
        return 0
    if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = how.grace if how.grace is not None else obj["spec"].get("terminationGracePeriodSeconds", 30)
    return max(0, asked)
