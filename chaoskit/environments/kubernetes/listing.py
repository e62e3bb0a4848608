"""`listed`: the only function that lists objects of a cluster. It lists objects of ours, by their labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import ApiKind
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.selectors import OwnerSelector, RunSelector
from chaoskit.errors import ChaoskitError

_PAGE = "500"
_GONE = 410
_ATTEMPTS = 5


class ForeignObject(ChaoskitError):
    """The API server answered with an object that was not selected. `name` is its name."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class Listed:
    """The selected objects, and the version of the list from which a watch continues."""

    manifests: tuple[Mapping[str, Any], ...]
    version: str


def listed(connection: ClusterConnection, kind: ApiKind, selector: RunSelector | OwnerSelector) -> Listed:
    """List the objects of a kind that are selected.

    Raises ClusterError, and ForeignObject if one of them lacks the labels: a server or a proxy that ignores the
    selector must not make us touch what is not ours.
    """
    must_select(selector)
    target = ApiTarget(kind, selector.namespace)
    manifests, version = _current_pages(connection, target, selector.for_api())
    for manifest in manifests:
        if not selector.matches(manifest):
            name = str((manifest.get("metadata") or {}).get("name"))
            what = f"{kind.kind} {name} in {selector.namespace}"
            raise ForeignObject(
                f"the API server answers with {what}, which lacks the labels that were asked for: nothing was touched; "
                "look for a proxy between chaoskit and the cluster",
                name=name,
            )
    return Listed(tuple(manifests), version)


def must_select(selector: object) -> None:
    """Raises TypeError for what is no selector of ours: a look-alike could select anything."""
    if type(selector) not in (RunSelector, OwnerSelector):
        raise TypeError(f"a selector must be a RunSelector or an OwnerSelector, not {selector!r}")


def _current_pages(
    connection: ClusterConnection, target: ApiTarget, labels: str
) -> tuple[list[Mapping[str, Any]], str]:
    """All pages of a list. It begins again if the list becomes too old for the server between two pages."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return _pages(connection, target, labels)
        except ClusterError as error:
            if error.status != _GONE:
                raise
    return _pages(connection, target, labels)


def _pages(connection: ClusterConnection, target: ApiTarget, labels: str) -> tuple[list[Mapping[str, Any]], str]:
    manifests: list[Mapping[str, Any]] = []
    following = ""
    while True:
        query = {"labelSelector": labels, "limit": _PAGE} | ({"continue": following} if following else {})
        page = connection.page(target, query)
        manifests += page.get("items") or []
        metadata = page.get("metadata") or {}
        following = str(metadata.get("continue") or "")
        if not following:
            return manifests, str(metadata.get("resourceVersion") or "")
