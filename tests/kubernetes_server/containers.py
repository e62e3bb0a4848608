"""`Containers`: the containers of pods in a Docker daemon, and what exec, port-forward and logs need of them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound

Json = dict[str, Any]
LABEL = "chaoskit.tests.pods"


class CannotStart(Exception):
    """A container that cannot start. `reason` is the kubelet's word."""

    def __init__(self, reason: str, said: str) -> None:
        super().__init__(said)
        self.reason = reason


class Containers:
    """The containers of one test, by the uid of their pods, on a network of their own. `directory` gets their logs. The
    host of the test is at `gateway` there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._daemon = docker.APIClient()
        self._mark = f"{os.getpid()}-{os.urandom(4).hex()}"
        labels = {LABEL: self._mark}
        self._network = str(self._daemon.create_network(f"pods-{self._mark}", driver="bridge", labels=labels)["Id"])
        self.gateway = str(self._daemon.inspect_network(self._network)["IPAM"]["Config"][0]["Gateway"])
        self._of: dict[str, str] = {}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, pod: Json, volumes: Mapping[str, Path]) -> None:
        """Start the container of a pod. Raises CannotStart."""
        spec, (container,) = pod["spec"], pod["spec"]["containers"]
        claims = {
            each["name"]: volumes[each["persistentVolumeClaim"]["claimName"]]
            for each in spec.get("volumes") or ()
            if "persistentVolumeClaim" in each
        }
        mounts = [
            {
                "Type": "bind",
                "Source": str(claims[each["name"]] / each.get("subPath", "")),
                "Target": each["mountPath"],
                "ReadOnly": each.get("readOnly", False),
            }
            for each in container.get("volumeMounts") or ()
            if each["name"] in claims
        ]
        try:
            self._daemon.inspect_image(container["image"])
            made = self._daemon.create_container(
                image=container["image"],
                entrypoint=container["command"][:1],
                command=container["command"][1:],
                environment={each["name"]: each.get("value", "") for each in container.get("env") or ()},
                hostname=spec.get("hostname") or pod["metadata"]["name"],
                labels={LABEL: self._mark},
                host_config=self._daemon.create_host_config(
                    mounts=mounts, network_mode=self._network, shm_size=1 << 30
                ),
                networking_config={"EndpointsConfig": {self._network: {"Aliases": _names(pod)}}},
            )["Id"]
            self._of[pod["metadata"]["uid"]] = made
            self._daemon.start(made)
        except ImageNotFound as error:
            raise CannotStart("ErrImagePull", f'image "{container["image"]}" is not there') from error
        except APIError as error:
            raise CannotStart("RunContainerError", str(error.explanation or error)) from error

    def status(self, uid: str) -> Json | None:
        """The status of a pod; None if it has no container."""
        if uid not in self._of:
            return None
        about = self._daemon.inspect_container(self._of[uid])
        state = about["State"]
        address = next(iter(about["NetworkSettings"]["Networks"].values()))["IPAddress"]
        if state["Status"] == "created":
            return None
        code = state["ExitCode"]
        phase = "Running" if state["Running"] else "Failed" if code else "Succeeded"
        shown: Json = {"running": {"startedAt": f"{state['StartedAt'][:19]}Z"}}
        if not state["Running"]:
            reason = "OOMKilled" if state["OOMKilled"] else "Error" if code else "Completed"
            shown = {"terminated": {"exitCode": code, "reason": reason}}
        told = {"name": "trainer", "image": about["Config"]["Image"], "imageID": about["Image"]}
        container = {**told, "ready": state["Running"], "restartCount": 0, "state": shown}
        return {"phase": phase, **({"podIP": address} if address else {}), "containerStatuses": [container]}

    def end(self, uid: str, *, grace: int) -> None:
        """Ask the container of a pod to end, kill it after `grace` seconds, and remove it."""
        if uid in self._of:
            with contextlib.suppress(NotFound):
                self._daemon.stop(self._of[uid], timeout=grace)
        self.remove(uid)

    def remove(self, uid: str) -> None:
        """Kill and remove the container of a pod."""
        if uid in self._of:
            with contextlib.suppress(NotFound):
                self._daemon.remove_container(self._of.pop(uid), force=True, v=True)

    def running(self) -> list[str]:
        """The uids of the pods whose container runs."""
        found = self._daemon.containers(filters={"label": f"{LABEL}={self._mark}"})
        ids = {each["Id"] for each in found}
        return [uid for uid, container in list(self._of.items()) if container in ids]

    def pids(self, uid: str) -> list[int]:
        """The processes of a pod, by their pids on this machine."""
        told = self._daemon.top(self._of[uid], ps_args="-o pid")
        return [int(line[0]) for line in told["Processes"]]

    def execute(self, pod: Json, container: str, command: Sequence[str], *, stdin: bool) -> subprocess.Popen[bytes]:
        """See `PodBackend`."""
        words = ["docker", "exec", *(["--interactive"] if stdin else []), self._of[pod["metadata"]["uid"]], *command]
        pipes = {"stdin": subprocess.PIPE if stdin else subprocess.DEVNULL}
        started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **pipes)
        self._started.append(started)
        return started

    def connect(self, pod: Json, port: int) -> socket.socket:
        """See `PodBackend`."""
        return socket.create_connection((pod["status"]["podIP"], port), timeout=10)

    def log(self, pod: Json, container: str, *, previous: bool) -> Path:
        """See `PodBackend`."""
        uid = pod["metadata"]["uid"]
        if previous or uid not in self._of:
            raise FileNotFoundError(uid)
        path = self._directory / f"{uid}.log"
        path.write_bytes(self._daemon.logs(self._of[uid]))
        return path

    def close(self) -> None:
        """End everything."""
        for started in self._started:
            started.kill()
            started.wait()
        for uid in list(self._of):
            self.remove(uid)
        for left in self._daemon.containers(all=True, filters={"label": f"{LABEL}={self._mark}"}):
            self._daemon.remove_container(left["Id"], force=True)
        with contextlib.suppress(NotFound):
            self._daemon.remove_network(self._network)
        self._daemon.close()


def _names(pod: Json) -> list[str]:
    """By which names other pods know it: those of its headless service."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    if not spec.get("hostname") or not spec.get("subdomain"):
        return []
    name = f"{spec['hostname']}.{spec['subdomain']}"
    return [name, f"{name}.{namespace}.svc.cluster.local"]
