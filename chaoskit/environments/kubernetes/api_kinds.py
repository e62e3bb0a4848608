"""`ApiKind`: a kind of object that chaoskit reads or makes, and where the API server has it."""

from __future__ import annotations

from dataclasses import dataclass

CHAOS_MESH = "chaos-mesh.org"


@dataclass(frozen=True)
class ApiKind:
    """`group` is "" for the core of Kubernetes; `plural` is the name in addresses, `kind` that in manifests."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """As manifests have it: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def in_commands(self) -> str:
        """As kubectl takes it: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """The address of all objects of a namespace, of one of them, or of a part of it."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        words = [root, "namespaces", namespace, self.plural, name, subresource]
        return "/".join(word for word in words if word)


CONFIG_MAPS = ApiKind("", "v1", "configmaps", "ConfigMap")
PODS = ApiKind("", "v1", "pods", "Pod")
SERVICES = ApiKind("", "v1", "services", "Service")
CLAIMS = ApiKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
QUOTAS = ApiKind("", "v1", "resourcequotas", "ResourceQuota")
JOBS = ApiKind("batch", "v1", "jobs", "Job")
JOB_SETS = ApiKind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
TRAIN_JOBS = ApiKind("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
PYTORCH_JOBS = ApiKind("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
#: Kinds of job that are not part of Kubernetes.
FURTHER_JOBS = (JOB_SETS, TRAIN_JOBS, PYTORCH_JOBS)


def _of_chaos_mesh(plural: str, kind: str) -> ApiKind:
    return ApiKind(CHAOS_MESH, "v1alpha1", plural, kind)


#: The kinds of Chaos Mesh that runs make. Each is one fault: none of them makes others.
CHAOS_FAULTS = tuple(
    _of_chaos_mesh(kind.lower(), kind)
    for kind in ("NetworkChaos", "IOChaos", "StressChaos", "TimeChaos", "DNSChaos")
)
NETWORK_CHAOS, IO_CHAOS, STRESS_CHAOS, TIME_CHAOS, DNS_CHAOS = CHAOS_FAULTS
