"""`RunObjects`: the objects of one run in a cluster; the only module that makes any.

Each object has the labels of its run and a reference to the ConfigMap that owns it. What is removed was listed by these
labels before: no function takes the name of an object from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes import run_owner
from chaoskit.environments.kubernetes.api_kinds import CHAOS_MESH, CONFIG_MAPS, ApiKind
from chaoskit.environments.kubernetes.cleanup import CleanupReport, clean_up
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.intents import IntentJournal
from chaoskit.environments.kubernetes.listing import Listed, listed
from chaoskit.environments.kubernetes.removal import evict_one, remove_one
from chaoskit.environments.kubernetes.selectors import (
    RunIdentity,
    RunSelector,
    check_label_value,
    check_namespace,
    foreign_targets,
    place_labels,
)
from chaoskit.errors import ChaoskitError, UsageError

NAME = "cluster-objects.jsonl"
#: Where a manifest has what other objects are made of.
_TEMPLATES = ("template", "volumeClaimTemplate", "templates")


class ForeignTarget(ChaoskitError):
    """A fault that could hit pods of somebody else. `why` has the reasons."""

    def __init__(self, message: str, *, why: tuple[str, ...]) -> None:
        super().__init__(message)
        self.why = why


class RunObjects:
    """The objects of one run. Making one begins with its ConfigMap.

    `run_dir` gets the journal of what is about to be made. While a pod named `harness` runs, no sweep removes them.
    With `makes_claims` the cluster makes volume claims for pods of the run, which are removed, too. Raises UsageError
    for a namespace or an id that cannot be used, ClusterError if the server refuses, OSError if the journal cannot be
    written.
    """

    def __init__(
        self,
        connection: ClusterConnection,
        *,
        namespace: str,
        run_id: str,
        run_dir: Path,
        harness: str = "",
        makes_claims: bool = False,
    ) -> None:
        self._connection = connection
        self._namespace = check_namespace("RunObjects", "namespace", namespace)
        self._makes_claims = makes_claims
        owner = run_owner.manifest(run_id, connection, harness=harness, makes_claims=makes_claims)
        self._journal = IntentJournal(run_dir / NAME)
        try:
            self.identity: RunIdentity = run_owner.identity_of(self._make(CONFIG_MAPS, owner))
        except BaseException:
            self._journal.close()
            raise

    def create(
        self, kind: ApiKind, manifest: Mapping[str, Any], *, role: str, node: int | None = None
    ) -> dict[str, Any]:
        """Make an object that belongs to the run; returns it as the server has it.

        Raises ForeignTarget for a fault whose selectors could match what is not of this run, ClusterError if the server
        refuses.
        """
        check_label_value("create", "role", role)
        if kind.group == CHAOS_MESH and (why := tuple(foreign_targets(manifest.get("spec"), self.identity))):
            raise ForeignTarget(f"{kind.kind}: it could hit pods of others: {'; '.join(why)}", why=why)
        return self._make(kind, owned(manifest, self.identity, role=role, node=node))

    def listed(self, kind: ApiKind, *, role: str | None = None, node: int | None = None) -> Listed:
        """The objects of a kind that are there now."""
        return listed(self._connection, kind, RunSelector(self.identity, role, node))

    def remove(self, kind: ApiKind, *, role: str, uid: str, grace: int = 0) -> bool:
        """Begin the removal of the object of this run that has this role and this uid; whether it was there. A pod has
        `grace` seconds to end by itself. Raises ClusterError."""
        selector = RunSelector(self.identity, role)
        return remove_one(self._connection, kind, selector, uid=uid, grace=grace)

    def evict(self, *, role: str, uid: str) -> bool:
        """Ask for the eviction of the pod of this run that has this role and this uid; whether it was there. Raises
        ClusterError."""
        return evict_one(self._connection, RunSelector(self.identity, role), uid=uid)

    def close(self, *, limit: float = 60.0) -> CleanupReport:
        """Remove everything of the run. Raises ClusterError if the API server fails: then the journal names what may
        be left, and a sweep removes it later."""
        report = clean_up(self._connection, self.identity, claims=self._makes_claims, limit=limit)
        if not report.left:
            self._journal.done()
        self._journal.close()
        return report

    def _make(self, kind: ApiKind, manifest: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(name := (manifest.get("metadata") or {}).get("name"), str):
            raise UsageError(f"{kind.kind}: metadata.name is missing: a generated name could not be journalled")
        self._journal.intend(kind, self._namespace, name)
        try:
            made: dict[str, Any] = self._connection.create(self._namespace, kind, manifest)
        except ClusterError as error:
            if not error.passing:  # else it may be there although nobody said so
                self._journal.absent(kind, self._namespace, name)
            raise
        self._journal.made(kind, self._namespace, name, str(made["metadata"]["uid"]))
        return made


def sweep(connection: ClusterConnection, namespace: str, *, limit: float = 60.0) -> tuple[CleanupReport, ...]:
    """Remove what dead harnesses of this user have left in a namespace: those of this machine, and those whose pod has
    ended. Raises ClusterError."""
    owners = listed(connection, CONFIG_MAPS, run_owner.of_this_user(namespace)).manifests
    dead = [found for found in owners if run_owner.is_abandoned(found, connection)]
    return tuple(
        clean_up(connection, run_owner.identity_of(found), claims=run_owner.makes_claims(found), limit=limit)
        for found in dead
    )


def owned(
    manifest: Mapping[str, Any], identity: RunIdentity, *, role: str, node: int | None = None
) -> dict[str, Any]:
    """A copy that belongs to a run: with its labels, here and in each template, and with a reference to its owner."""
    found = _labelled(manifest, {**place_labels(role, node), **identity.labels})
    found["metadata"]["namespace"] = identity.namespace
    found["metadata"]["ownerReferences"] = [run_owner.reference(identity)]
    return found


def _labelled(manifest: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """A copy with these labels, in it and in each template of a pod, a job or a volume claim inside it."""
    metadata = dict(manifest.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    return {**_with_templates(manifest, labels), "metadata": metadata}


def _with_templates(value: Any, labels: Mapping[str, str], *, is_template: bool = False) -> Any:
    if isinstance(value, Mapping):
        if is_template and "spec" in value:
            return _labelled(value, labels)
        return {name: _with_templates(inner, labels, is_template=name in _TEMPLATES) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_templates(inner, labels, is_template=is_template) for inner in value]
    return value
