"""`RunSelector`: selects objects of one run, and can select nothing else.

Each object of a run carries two labels: the id of the run, and the UID of the ConfigMap that owns everything of it. The
server gives each ConfigMap a new UID, so no object of anybody else carries both. A selector always asks for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.validation import check_whole

RUN, OWNER = "chaoskit.dev/run", "chaoskit.dev/owner"
ROLE, NODE, USER = "chaoskit.dev/role", "chaoskit.dev/node", "chaoskit.dev/user"
#: The label by which the controller of Jobs numbers the pods of an Indexed Job. It is not ours: a selector asks for it
#: beside the labels of the run.
INDEX = "batch.kubernetes.io/job-completion-index"
#: Those by which the training operator does: the type of a replica in small letters, and a number within that type.
REPLICA_TYPE, REPLICA_INDEX = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
#: The role of the ConfigMap that owns a run.
OWNER_ROLE = "owner"
_MOST_NODES = 10**6
_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


def check_label_value(where: str, argument: str, value: object) -> str:
    """The value of a label, which is not empty. Raises UsageError for what is none."""
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise UsageError(
            f"{where}: {argument} must be the value of a label (1 to 63 letters, digits, '-', '_' or '.', the first "
            f"and the last a letter or a digit), not {value!r}"
        )
    return value


def check_namespace(where: str, argument: str, value: object) -> str:
    """The name of a namespace. Raises UsageError for what is none."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise UsageError(
            f"{where}: {argument} must be the name of a namespace (1 to 63 lower-case letters, digits or '-', the "
            f"first and the last no '-'), not {value!r}"
        )
    return value


@dataclass(frozen=True)
class RunIdentity:
    """A run in a cluster: its `namespace`, its id, and the `uid` of the ConfigMap that owns it."""

    namespace: str
    run: str
    uid: str

    def __post_init__(self) -> None:
        check_namespace("RunIdentity", "namespace", self.namespace)
        check_label_value("RunIdentity", "run", self.run)
        check_label_value("RunIdentity", "uid", self.uid)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of every object of the run."""
        return {RUN: self.run, OWNER: self.uid}


@dataclass(frozen=True)
class RunSelector:
    """The objects of one run; with `role`, `node` or `index`, only some of them: `index` is that of a pod of an Indexed
    Job, or of a `replica` of that type. Raises UsageError for what is not that."""

    identity: RunIdentity
    role: str | None = None
    node: int | None = None
    index: int | None = None
    replica: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.identity, RunIdentity):
            raise UsageError(f"RunSelector: identity must be a RunIdentity, not {self.identity!r}")
        if self.role is not None:
            check_label_value("RunSelector", "role", self.role)
        for name in ("node", "index"):
            if (number := getattr(self, name)) is not None:
                check_whole("RunSelector", name, number, least=0, most=_MOST_NODES)
        if self.replica is not None:
            check_label_value("RunSelector", "replica", self.replica)
            if self.index is None:
                raise UsageError("RunSelector: replica needs index")

    @property
    def namespace(self) -> str:
        """Where it selects."""
        return self.identity.namespace

    @property
    def labels(self) -> dict[str, str]:
        """What a selected object must carry."""
        return {**place_labels(self.role, self.node), **self._of_controller, **self.identity.labels}

    @property
    def _of_controller(self) -> dict[str, str]:
        if self.index is None:
            return {}
        if self.replica is None:
            return {INDEX: str(self.index)}
        return {REPLICA_TYPE: self.replica, REPLICA_INDEX: str(self.index)}

    def matches(self, manifest: Mapping[str, Any]) -> bool:
        """Whether an object is selected."""
        metadata = manifest.get("metadata") or {}
        labels = metadata.get("labels") or {}
        return metadata.get("namespace") == self.namespace and self.labels.items() <= labels.items()

    def for_api(self) -> str:
        """As the parameter `labelSelector` of a list or a watch, in the selector's own namespace."""
        return ",".join(f"{name}={value}" for name, value in self.labels.items())

    def for_chaos_mesh(self) -> dict[str, Any]:
        """As the `selector` of a fault of Chaos Mesh: running pods of one namespace, by labels, never by name."""
        return {
            "namespaces": [self.identity.namespace],
            "labelSelectors": self.labels,
            "podPhaseSelectors": ["Running"],
        }

    def for_affinity(self) -> dict[str, Any]:
        """As a term of the affinity of pods: the machines on which a selected pod runs."""
        return {"labelSelector": {"matchLabels": self.labels}, "topologyKey": "kubernetes.io/hostname"}


@dataclass(frozen=True)
class OwnerSelector:
    """The ConfigMaps that own the runs of one user of a machine, whichever runs those are: for a sweep."""

    namespace: str
    user: str

    def __post_init__(self) -> None:
        check_namespace("OwnerSelector", "namespace", self.namespace)
        check_label_value("OwnerSelector", "user", self.user)

    @property
    def labels(self) -> dict[str, str]:
        """What a selected ConfigMap must carry, beside the label of its run."""
        return {ROLE: OWNER_ROLE, USER: self.user}

    def matches(self, manifest: Mapping[str, Any]) -> bool:
        """Whether an object is selected."""
        metadata = manifest.get("metadata") or {}
        labels = metadata.get("labels") or {}
        in_place = metadata.get("namespace") == self.namespace and self.labels.items() <= labels.items()
        return in_place and bool(labels.get(RUN))

    def for_api(self) -> str:
        """As the parameter `labelSelector` of a list."""
        return ",".join([RUN, *(f"{name}={value}" for name, value in self.labels.items())])


def place_labels(role: str | None, node: int | None) -> dict[str, str]:
    """The labels that say what an object is for, and of which node it is."""
    labels = {ROLE: role, NODE: None if node is None else str(node)}
    return {name: value for name, value in labels.items() if value is not None}


def foreign_targets(manifest: Any, identity: RunIdentity) -> Iterator[str]:
    """Why the selectors inside a manifest of Chaos Mesh could match what is not of the run, in words."""
    if isinstance(manifest, Mapping):
        for name, value in manifest.items():
            if name == "selector":
                yield from _why_foreign(value, identity)
            else:
                yield from foreign_targets(value, identity)
    elif isinstance(manifest, list | tuple):
        for value in manifest:
            yield from foreign_targets(value, identity)


def _why_foreign(selector: Any, identity: RunIdentity) -> Iterator[str]:
    if not isinstance(selector, Mapping):
        yield f"a selector is no mapping: {selector!r}"
        return
    if unknown := sorted(set(selector) - {"namespaces", "labelSelectors", "podPhaseSelectors"}):
        yield f"a selector has {', '.join(unknown)}"
    if selector.get("namespaces") != [identity.namespace]:
        yield f"a selector is not for namespace {identity.namespace} alone"
    labels = selector.get("labelSelectors")
    if not isinstance(labels, Mapping) or not identity.labels.items() <= labels.items():
        yield f"a selector lacks the labels of the run, {', '.join(identity.labels)}"
