"""A cluster for benchmarks: the API server of the tests, whose kubelet runs pods as Docker containers here."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubernetes import client, config

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from chaoskit.nodes import ClusterPlace  # noqa: E402
from tests.docker_images import images  # noqa: E402
from tests.kubernetes_server.chaos_controller import ChaosController  # noqa: E402
from tests.kubernetes_server.chaos_in_namespaces import NamespaceBackend  # noqa: E402
from tests.kubernetes_server.chaos_in_namespaces import why_not as why_no_mesh  # noqa: E402
from tests.kubernetes_server.fixtures import definitions  # noqa: E402
from tests.kubernetes_server.kubelet import Kubelet  # noqa: E402
from tests.kubernetes_server.objects import claim  # noqa: E402
from tests.kubernetes_server.server import KubernetesServer  # noqa: E402

NAMESPACE, CLAIM = "chaos", "runs"


@dataclass(frozen=True)
class PodCluster:
    """A cluster with the namespace `NAMESPACE`, and the claim `CLAIM`, whose volume is a directory of this machine."""

    core: client.CoreV1Api
    kubelet: Kubelet
    place: ClusterPlace

    @property
    def volume(self) -> Path:
        """The directory."""
        return Path(self.place.path)

    @property
    def store(self) -> Path:
        """Where runs are stored, on the volume."""
        return self.volume / "store"

    @property
    def settings(self) -> dict[str, str]:
        """The keys of a `chaoskit.toml` that runs jobs here."""
        place = self.place
        return {
            "context": place.context,
            "kubeconfig": place.kubeconfig,
            "namespace": place.namespace,
            "volume": f"{place.claim}:{place.path}",
            "address": place.address,
        }

    def lay(self, package: str) -> Path:
        """Put a package of this checkout where pods can import it; returns the directory for PYTHONPATH."""
        code = self.store / "code"
        shutil.copytree(REPOSITORY / package, code / package, dirs_exist_ok=True)
        return code


@contextmanager
def cluster_in(directory: Path, *, volume: Path | None = None) -> Iterator[PodCluster]:
    """A cluster whose files are in a directory, and whose volume is there, too, if it is not elsewhere. It has Chaos
    Mesh, where this machine can disturb the networks of pods."""
    no_mesh = why_no_mesh()
    server = KubernetesServer(definitions=() if no_mesh else definitions())
    server.start()
    kubeconfig = server.kubeconfig(directory)
    volume = volume or directory / "volume"
    with config.new_client_from_config(str(kubeconfig)) as api:
        core = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": NAMESPACE}})
        volume.mkdir(exist_ok=True)
        kubelet = Kubelet(server, directory / "kubelet", pause=images.image("no-python"))
        server.put("persistentvolumeclaims", claim(CLAIM, "ReadWriteMany"), namespace=NAMESPACE)
        kubelet.volumes[(NAMESPACE, CLAIM)] = volume
        kubelet.start()
        mesh = None if no_mesh else ChaosController(server, NamespaceBackend(kubelet.pid_of)).start()
        place = ClusterPlace(
            namespace=NAMESPACE,
            claim=CLAIM,
            path=str(volume),
            context=config.list_kube_config_contexts(str(kubeconfig))[1]["name"],
            kubeconfig=str(kubeconfig),
            address=kubelet.host_address,
        )
        try:
            yield PodCluster(core, kubelet, place)
        finally:
            if mesh is not None:
                mesh.stop()
            kubelet.close()
            server.stop()
