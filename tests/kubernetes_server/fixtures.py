"""The server as a fixture, and the cluster that it stands for: a real one, where CHAOSKIT_TEST_KUBECONFIG names it."""

from __future__ import annotations

import functools
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kubernetes_server.namespaces import ROOT_CERTIFICATE, SERVICE_ACCOUNT
from tests.kubernetes_server.objects import claim
from tests.kubernetes_server.server import KubernetesServer
from tests.users import REPOSITORY, must_have

if TYPE_CHECKING:
    from tests.kubernetes_server.chaos_controller import ChaosController
    from tests.kubernetes_server.kubelet import Kubelet

#: The definitions as their projects publish them; they lie beside the repository.
DEFINITIONS = REPOSITORY.parent / "shared" / "kubernetes" / "crds"
REAL, IMAGE = "CHAOSKIT_TEST_KUBECONFIG", "CHAOSKIT_TEST_IMAGE"


@functools.cache
def definitions() -> tuple[dict[str, Any], ...]:
    """All CustomResourceDefinitions, read once in a process."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(yaml.load(path.read_bytes(), Loader=loader) for path in sorted(DEFINITIONS.glob("*.yaml")))


@dataclass(frozen=True)
class Cluster:
    """What every test may know of a cluster: a kubeconfig, its context, and a namespace that is the test's own."""

    kubeconfig: Path
    context: str
    namespace: str


@pytest.fixture
def crds(request: pytest.FixtureRequest) -> tuple[dict[str, Any], ...]:
    """The definitions beside the repository; skips where they are not there, and fails with --chaos-require."""
    must_have(request, None if DEFINITIONS.is_dir() else f"there are no definitions in {DEFINITIONS}")
    return definitions()


@pytest.fixture
def api_server() -> Iterator[KubernetesServer]:
    """Our own server, for tests that need its hooks: these are skipped on a real cluster.

    It has the definitions that lie beside the repository, and none where none lie there.
    """
    if os.environ.get(REAL):
        pytest.skip(f"{REAL} is set, and this test needs the hooks of our own server")
    server = KubernetesServer(definitions=definitions())
    server.start()
    try:
        yield server
    finally:
        server.stop()
    for error in server.errors:
        raise error


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster, ours or a real one, with a namespace of the test's own."""
    from kubernetes import client, config

    real = os.environ.get(REAL)
    path = Path(real) if real else request.getfixturevalue("api_server").kubeconfig(tmp_path)
    context = config.list_kube_config_contexts(str(path))[1]["name"]
    with config.new_client_from_config(str(path), context=context) as api:
        core = client.CoreV1Api(api)
        namespace = f"chaoskit-{uuid.uuid4().hex[:8]}"
        core.create_namespace({"metadata": {"name": namespace}})
        try:
            _wait_until_furnished(core, namespace)
            yield Cluster(path, context, namespace)
        finally:
            core.delete_namespace(namespace)


@dataclass(frozen=True)
class RealCluster(Cluster):
    """A cluster that runs pods: ours in containers here, or a real one. `image` has Python and torch, and it is there
    without a pull."""

    image: str
    running: Kubelet | None = None

    @property
    def kubelet(self) -> Kubelet:
        """The kubelet of our own server, for tests that need its hooks: these are skipped on a real cluster."""
        if self.running is None:
            pytest.skip(f"{REAL} is set, and this test needs the hooks of our own kubelet")
        return self.running


@pytest.fixture
def real_cluster(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[RealCluster]:
    """A cluster that runs pods; skips without a Docker daemon, and fails with --chaos-require.

    On a real cluster, IMAGE names an image that its nodes have.
    """
    known = (cluster.kubeconfig, cluster.context, cluster.namespace)
    if os.environ.get(REAL):
        if IMAGE not in os.environ:
            pytest.skip(f"{REAL} is set, and {IMAGE} names no image for its pods")
        yield RealCluster(*known, os.environ[IMAGE])
        return
    make = request.getfixturevalue("docker_image")
    from tests.kubernetes_server.kubelet import Kubelet

    server = request.getfixturevalue("api_server")
    kubelet = Kubelet(server, tmp_path / "kubelet", pause=make("no-python"))
    try:
        kubelet.start()
        yield RealCluster(*known, make("torch"), kubelet)
    finally:
        kubelet.close()
    for error in kubelet.errors:
        raise error


@dataclass(frozen=True)
class Machines:
    """A cluster of ours whose pods run as containers here. `volume` is what the claim `runs` is on this machine, and
    `address` is where its pods reach this machine."""

    cluster: Cluster
    kubelet: Kubelet
    volume: Path
    address: str


@pytest.fixture
def machines(api_server: KubernetesServer, real_cluster: RealCluster, tmp_path: Path) -> Machines:
    """Machines for the pods of a test, and a claim that they share."""
    kubelet, volume = real_cluster.kubelet, tmp_path / "volume"
    volume.mkdir()
    api_server.put("persistentvolumeclaims", claim("runs", "ReadWriteMany"), namespace=real_cluster.namespace)
    kubelet.volumes[(real_cluster.namespace, "runs")] = volume
    return Machines(real_cluster, kubelet, volume, kubelet.host_address)


@pytest.fixture
def mesh_in_pods(
    request: pytest.FixtureRequest, api_server: KubernetesServer, crds: Any, machines: Machines
) -> Iterator[ChaosController]:
    """A controller of Chaos Mesh that really disturbs the pods of `machines`; only root can. A test sets its hooks."""
    from tests.kubernetes_server.chaos_controller import ChaosController
    from tests.kubernetes_server.chaos_in_namespaces import NamespaceBackend, why_not

    must_have(request, why_not())
    made = ChaosController(api_server, NamespaceBackend(machines.kubelet.pid_of)).start()
    yield made
    made.stop()


def _wait_until_furnished(core: Any, namespace: str) -> None:
    """Wait for what the controllers of a real cluster put into each namespace: pods cannot be made before."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        maps = {one.metadata.name for one in core.list_namespaced_config_map(namespace).items}
        accounts = {one.metadata.name for one in core.list_namespaced_service_account(namespace).items}
        if ROOT_CERTIFICATE in maps and SERVICE_ACCOUNT in accounts:
            return
        time.sleep(0.1)
