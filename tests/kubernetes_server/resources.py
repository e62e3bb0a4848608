"""The kinds of objects that the server knows: those built in, and those of custom resource definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Of each group and version: plural, kind and marks. C: cluster-wide; S: has a status; G: counts generations.
BUILTIN: dict[str, str] = {
    "v1": """
        namespaces Namespace CS; nodes Node CS; persistentvolumes PersistentVolume CS; pods Pod SG; services Service S;
        configmaps ConfigMap; secrets Secret; persistentvolumeclaims PersistentVolumeClaim S; events Event;
        serviceaccounts ServiceAccount; resourcequotas ResourceQuota S; endpoints Endpoints; limitranges LimitRange;
        podtemplates PodTemplate; replicationcontrollers ReplicationController SG""",
    "apps/v1": """
        deployments Deployment SG; statefulsets StatefulSet SG; daemonsets DaemonSet SG; replicasets ReplicaSet SG;
        controllerrevisions ControllerRevision""",
    "batch/v1": "jobs Job SG; cronjobs CronJob SG",
    "rbac.authorization.k8s.io/v1": """
        roles Role; rolebindings RoleBinding; clusterroles ClusterRole C; clusterrolebindings ClusterRoleBinding C""",
    "coordination.k8s.io/v1": "leases Lease",
    "policy/v1": "poddisruptionbudgets PodDisruptionBudget SG",
    "storage.k8s.io/v1": "storageclasses StorageClass C",
    "networking.k8s.io/v1": "networkpolicies NetworkPolicy G; ingresses Ingress SG",
    "discovery.k8s.io/v1": "endpointslices EndpointSlice",
    "scheduling.k8s.io/v1": "priorityclasses PriorityClass C",
    "apiextensions.k8s.io/v1": "customresourcedefinitions CustomResourceDefinition CSG",
    "admissionregistration.k8s.io/v1": """
        validatingadmissionpolicies ValidatingAdmissionPolicy CSG;
        validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding CG;
        validatingwebhookconfigurations ValidatingWebhookConfiguration CG;
        mutatingwebhookconfigurations MutatingWebhookConfiguration CG""",
    "authorization.k8s.io/v1": """
        selfsubjectaccessreviews SelfSubjectAccessReview CV; selfsubjectrulesreviews SelfSubjectRulesReview CV""",
    "authentication.k8s.io/v1": "selfsubjectreviews SelfSubjectReview CV",
}
#: What a resource has besides its status.
MORE_SUBRESOURCES = {"pods": {"log", "exec", "portforward", "eviction"}}
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """One kind of objects: how it is called in paths, in objects and in sentences.

    `custom` is the schema of a custom resource, None for a kind that is built in.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    counts_generations: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    singular: str = ""
    short_names: tuple[str, ...] = ()
    custom: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """The name that the server uses in its sentences."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def key(self) -> tuple[str, str]:
        return (self.group, self.plural)

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


def _builtin() -> Iterator[Resource]:
    for api_version, table in BUILTIN.items():
        group, _, version = api_version.rpartition("/")
        for line in table.split(";"):
            plural, kind, *marks = line.split()
            letters = "".join(marks)
            subresources = {"status"} if "S" in letters else set()
            yield Resource(
                group, version, plural, kind,
                namespaced="C" not in letters,
                subresources=frozenset(subresources | MORE_SUBRESOURCES.get(plural, set())),
                counts_generations="G" in letters,
                verbs=("create",) if "V" in letters else ALL_VERBS,
                singular=kind.lower(),
            )  # fmt: skip


def _custom(definition: Mapping[str, Any]) -> Iterator[Resource]:
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if version.get("served"):
            yield Resource(
                spec["group"], version["name"], names["plural"], names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                subresources=frozenset(set(version.get("subresources") or ()) & {"status"}),
                singular=names.get("singular", names["kind"].lower()),
                short_names=tuple(names.get("shortNames", ())),
                custom=version.get("schema", {}).get("openAPIV3Schema", {}),
            )  # fmt: skip


class Catalogue:
    """All resources by group, version and plural."""

    def __init__(self) -> None:
        self._known = {(r.group, r.version, r.plural): r for r in _builtin()}

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._known.values()))

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._known.get((group, version, plural))

    def named(self, plural: str, group: str = "") -> Resource:
        """The resource of a group in whichever version; raises KeyError."""
        return {resource.key: resource for resource in self}[(group, plural)]

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource that an owner reference means; its version need not be served."""
        group = api_version.rpartition("/")[0]
        return next((r for r in self if (r.group, r.kind) == (group, kind)), None)

    def groups(self) -> dict[str, list[str]]:
        """The versions of each group, without those of the core."""
        found: dict[str, list[str]] = {}
        for resource in self:
            if resource.group and resource.version not in found.setdefault(resource.group, []):
                found[resource.group].append(resource.version)
        return found

    def install(self, definition: Mapping[str, Any]) -> None:
        """Serve what a CustomResourceDefinition defines, and nothing else under its name."""
        self.uninstall(definition)
        for resource in _custom(definition):
            self._known[(resource.group, resource.version, resource.plural)] = resource

    def uninstall(self, definition: Mapping[str, Any]) -> None:
        key = (definition["spec"]["group"], definition["spec"]["names"]["plural"])
        self._known = {name: r for name, r in self._known.items() if r.key != key}
