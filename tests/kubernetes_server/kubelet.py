"""A scheduler and a kubelet for our own server: each pod runs as a container of a Docker daemon.

They speak to the server through the official client, as any other client does. Only what tests need is here: one
container a pod, `restartPolicy: Never`, volumes of claims, names by a headless service.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes import client, config

from tests.kubernetes_server.containers import CannotStart, Containers

Json = dict[str, Any]
_PERIOD = 0.05
NAME = "kubelet"


class Kubelet:
    """Runs the pods of one namespace on `machines`. `volumes` has the directory of each claim.

    While `is_full`, no machine takes a pod. `errors` are those of its thread; a test must not go on with one.
    """

    def __init__(
        self, kubeconfig: Path, *, namespace: str, containers: Containers, volumes: Mapping[str, Path],
        machines: tuple[str, ...] = ("machine-0", "machine-1"),
    ) -> None:  # fmt: skip
        self.containers = containers
        self.is_full = False
        self.errors: list[Exception] = []
        self._namespace, self._volumes, self._machines = namespace, dict(volumes), machines
        self._api = config.new_client_from_config(str(kubeconfig))
        self._api.user_agent = NAME  # what goes wrong between server and client is for others
        self._core = client.CoreV1Api(self._api)
        #: By uid of its pod, what was told last of each.
        self._told: dict[str, Json] = {}
        self._bound = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End every container, and itself."""
        self._ends.set()
        self._thread.join()
        self.containers.close()
        self._api.close()

    def _run(self) -> None:
        while not self._ends.wait(_PERIOD):
            try:
                self._look()
            except Exception as error:
                # A server that is away, as a test may wish, is asked again; the test sees everything else.
                if not isinstance(error, client.ApiException) and "HTTPConnectionPool" not in str(error):
                    self.errors.append(error)

    def _look(self) -> None:
        pods = self._listed()
        for pod in pods:
            self._keep(pod)
        uids = {pod["metadata"]["uid"] for pod in pods}
        for uid in [uid for uid in self._told if uid not in uids]:
            self.containers.remove(uid)  # deleted without grace
            del self._told[uid]

    def _listed(self) -> list[Json]:
        answer = self._core.list_namespaced_pod(self._namespace, _preload_content=False)
        found: list[Json] = json.loads(answer.data)["items"]
        return found

    def _keep(self, pod: Json) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            self.containers.end(uid, grace=pod["metadata"].get("deletionGracePeriodSeconds", 0))
            self._core.delete_namespaced_pod(name, self._namespace, grace_period_seconds=0, _preload_content=False)
            return
        if uid not in self._told:
            if not pod["spec"].get("nodeName"):
                self._schedule(pod)
                return
            self._told[uid] = {}
            self._tell(pod, self._begun(pod))
        elif (status := self.containers.status(uid)) is not None:
            self._tell(pod, status)

    def _schedule(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        if self.is_full:
            said = f"0/{len(self._machines)} nodes are available: {len(self._machines)} Insufficient cpu."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
            change = {"status": {"phase": "Pending", "conditions": [condition]}}
            self._core.patch_namespaced_pod_status(name, self._namespace, change, _preload_content=False)
            return
        self._bound += 1
        change = {"spec": {"nodeName": self._machines[self._bound % len(self._machines)]}}
        self._core.patch_namespaced_pod(name, self._namespace, change, _preload_content=False)

    def _begun(self, pod: Json) -> Json:
        """Start the container of a pod; returns the status of the pod."""
        try:
            self.containers.start(pod, self._volumes)
        except CannotStart as error:
            waiting = {"reason": error.reason, "message": str(error)}
            container = pod["spec"]["containers"][0]
            told = {"name": container["name"], "image": container["image"], "imageID": "", "ready": False}
            return {
                "phase": "Pending",
                "containerStatuses": [{**told, "restartCount": 0, "state": {"waiting": waiting}}],
            }
        return self.containers.status(pod["metadata"]["uid"]) or {}

    def _tell(self, pod: Json, status: Json) -> None:
        uid = pod["metadata"]["uid"]
        if status != self._told[uid]:
            self._told[uid] = status
            change = {"status": status}
            name = pod["metadata"]["name"]
            self._core.patch_namespaced_pod_status(name, self._namespace, change, _preload_content=False)
