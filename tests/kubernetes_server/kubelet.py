"""A scheduler, controllers of jobs and a kubelet for our own server: each pod has containers of a Docker daemon.

`Kubelet` is all nodes at once, and starts the others. It is the server's back-end for exec, port-forward and logs, too.
What is not here: probes, hooks of a container's life, sidecars among the first containers, pulls of images; and a pod
gets the token of its service account only if it asks for it.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes_server.claim_controller import ClaimController
from tests.kubernetes_server.container_runs import LOOKS, Runtime
from tests.kubernetes_server.containers import Containers
from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.job_controller import JobController
from tests.kubernetes_server.job_set_controller import JobSetController
from tests.kubernetes_server.lifecycle import now
from tests.kubernetes_server.names import Names, NameServer
from tests.kubernetes_server.pod_status import ENDED
from tests.kubernetes_server.pod_worker import Node, PodWorker
from tests.kubernetes_server.pytorch_job_controller import PyTorchJobController
from tests.kubernetes_server.scheduler import Scheduler
from tests.kubernetes_server.server import KubernetesServer
from tests.kubernetes_server.service_accounts import ServiceAccounts
from tests.kubernetes_server.train_job_controller import TrainJobController

Json = dict[str, Any]
NODES = ("node-0", "node-1")


class Kubelet:
    """Runs the pods of a server. `volumes` has the directory of each claim by namespace and name; a claim without one
    gets one. `back_off` are the seconds before the second restart of a container.

    Pods reach this machine at `host_address`. `errors` are those of its threads; a test must not go on with one.
    """

    def __init__(
        self, server: KubernetesServer, directory: Path, *, pause: str, nodes: Sequence[str] = NODES
    ) -> None:
        self.volumes: dict[tuple[str, str], Path] = {}
        self.back_off = 10.0
        self.errors: list[Exception] = []
        self._server, self._directory = server, directory
        self._plane = self._of("kubelet")
        self.scheduler = Scheduler(self._of("default-scheduler"))
        self.claims = ClaimController(self._of("ephemeral-volume-controller"))
        self.jobs = JobController(self._of("job-controller"))
        self.job_sets = JobSetController(self._of("jobset-controller"))
        self.pytorch_jobs = PyTorchJobController(self._of("training-operator"))
        self.train_jobs = TrainJobController(self._of("trainer"))
        self._containers = Containers(pause=pause)
        self.host_address = self._containers.gateway
        self._workers: dict[str, PodWorker] = {}
        self._versions: dict[str, str] = {}
        runtime = Runtime(self._plane, self._containers, back_off=lambda: self.back_off)
        names = Names(self._plane)
        self._server_of_names = _listening(names, self.host_address)
        self._node = Node(runtime, directory / "pods", claims=self._claim, names=names,
                          dns=self.host_address if self._server_of_names else None,
                          accounts=ServiceAccounts(server, directory / "accounts", self.host_address))  # fmt: skip
        self._closed = threading.Event()
        looks = {"scheduler": self.scheduler.look, "job-controller": self.jobs.look,
                 "jobset-controller": self.job_sets.look, "training-operator": self.pytorch_jobs.look,
                 "trainer": self.train_jobs.look, "ephemeral-volume-controller": self.claims.look,
                 "kubelet": self._look}  # fmt: skip
        self._threads = [threading.Thread(target=self._run, args=(look,), name=name, daemon=True)
                         for name, look in looks.items()]  # fmt: skip
        for name in nodes:
            server.put("nodes", _node(name))
        server.api.backend = self

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End all pods at once, and remove what they had. Raises AssertionError if something is left of them.

        The server asks for it, too, when it stops.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        self._plane.wake()
        for thread in self._threads:
            if thread.ident:
                thread.join()
        for worker in self._workers.values():
            worker.close()
        self._containers.refuse()
        for worker in self._workers.values():
            worker.thread.join()
        self._collect_errors()
        if self._server_of_names is not None:
            self._server_of_names.close()
        self._containers.close()  # with the network of the address at which names were served
        left = self._containers.left()
        self._containers.disconnect()
        assert left == [], f"the kubelet has left {left}"

    @property
    def mark(self) -> str:
        """The value of the label of all that it makes."""
        return self._containers.mark

    def left(self) -> list[str]:
        """The names of what it has in the daemon."""
        return self._containers.left()

    def running(self) -> list[str]:
        """The uids of the pods of which a container runs."""
        return [uid for uid in list(self._workers) if self.containers_of(uid)]

    def containers_of(self, uid: str) -> list[str]:
        """The containers of a pod that run, by their ids in the daemon."""
        worker = self._workers.get(uid)
        return [] if worker is None else [one.id for one in (*worker.initial, *worker.main) if one.runs]

    def pids(self, uid: str) -> list[int]:
        """The processes of a pod, by their pids on this machine."""
        return [pid for container in self.containers_of(uid) for pid in self._containers.pids(container)]

    def pid_of(self, pod: Json, container: str = "") -> int:
        """The first process of a container of a pod, or of that container. Raises OSError if none runs there."""
        if container:
            return self._containers.first_pid(self._worker(pod).record(container).id)
        for running in self.containers_of(pod["metadata"]["uid"]):
            return self._containers.first_pid(running)
        raise OSError(f"nothing runs in pod {pod['metadata']['name']}")

    def kill_container(self, uid: str, signal: str = "SIGKILL") -> None:
        """Kill the containers of a pod as if by themselves: nobody deletes the pod."""
        for container in self.containers_of(uid):
            self._containers.kill(container, signal)

    def execute(self, pod: Json, container: str, command: Sequence[str], *, stdin: bool) -> subprocess.Popen[bytes]:
        """See `PodBackend`."""
        record = self._worker(pod).record(container)
        if not record.runs:
            raise OSError(f'container not found ("{container}")')
        return self._containers.execute(record.id, command, stdin=stdin)

    def connect(self, pod: Json, port: int) -> socket.socket:
        """See `PodBackend`."""
        return socket.create_connection((pod["status"]["podIP"], port), timeout=10)

    def log(self, pod: Json, container: str, *, previous: bool) -> Path:
        """See `PodBackend`."""
        path = self._worker(pod).log(container, previous=previous)
        if not path.exists():
            raise FileNotFoundError(path)
        return path

    def _worker(self, pod: Json) -> PodWorker:
        worker = self._workers.get(pod["metadata"]["uid"])
        if worker is None:
            raise OSError(f"pod {pod['metadata']['name']} does not exist")
        return worker

    def _of(self, component: str) -> ControlPlane:
        server = self._server
        return ControlPlane(server.store, server.catalogue, server.api, component=component)

    def _run(self, look: Any) -> None:
        seen = 0
        while not self._closed.is_set():
            try:
                seen = self._plane.version
                look()
            except Exception as error:
                self.errors.append(error)
                return
            self._plane.wait(seen, timeout=LOOKS)

    def _look(self) -> None:
        """Give every new pod on a node its worker, and tell the others of changes."""
        pods = {pod["metadata"]["uid"]: pod for pod in self._plane.all("pods")}
        for uid, pod in pods.items():
            version = pod["metadata"]["resourceVersion"]
            if uid in self._workers:
                if self._versions[uid] != version:
                    self._workers[uid].look()
            elif pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") not in ENDED:
                self._workers[uid] = PodWorker(pod, self._node)
                self._workers[uid].thread.start()
            self._versions[uid] = version
        for uid in [uid for uid in self._versions if uid not in pods]:
            del self._versions[uid]
            if uid in self._workers:
                self._workers[uid].look()
        self._collect_errors()

    def _collect_errors(self) -> None:
        for worker in self._workers.values():
            self.errors += worker.errors
            worker.errors.clear()

    def _claim(self, pod: Json, claim: str) -> Path:
        """The directory of a claim, which is bound from now on."""
        key = (pod["metadata"]["namespace"], claim)
        if key not in self.volumes:
            self.volumes[key] = self._directory.joinpath("claims", *key)
            self.volumes[key].mkdir(parents=True, exist_ok=True)
            self.volumes[key].chmod(0o777)
        found = self._plane.get("persistentvolumeclaims", *key)
        if found is not None and found.get("status", {}).get("phase") != "Bound":
            self._plane.patch("persistentvolumeclaims", found, {"status": {"phase": "Bound"}}, status=True)
        return self.volumes[key]


def _listening(names: Names, address: str) -> NameServer | None:
    """A server of the names; None for an ordinary user, who may not listen on its port."""
    try:
        return NameServer(names, address)
    except PermissionError:
        return None


def _node(name: str) -> Json:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
             "lastHeartbeatTime": now(), "lastTransitionTime": now()}  # fmt: skip
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}
