"""`Containers`: what a kubelet asks of a container runtime, here a Docker daemon."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound
from docker.utils import kwargs_from_env

from tests.kubernetes_server.lifecycle import now

Json = dict[str, Any]
LABEL, POD = "chaoskit.tests.pods", "chaoskit.tests.pod"
PAUSE = ["sleep", "infinity"]


class CannotStart(Exception):
    """A container that cannot start. `reason` is the kubelet's word."""

    def __init__(self, reason: str, said: str) -> None:
        super().__init__(said)
        self.reason = reason


@dataclass(frozen=True)
class Sandbox:
    """What the containers of a pod share: a network namespace with its address, and the names of the pod."""

    id: str
    address: str


@dataclass(frozen=True)
class Wish:
    """A container to make. `mounts` are as Docker takes them; `host` are further settings of its host_config."""

    name: str
    image: str
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    user: str = ""
    mounts: Sequence[Json] = ()
    host: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a container ended."""

    container: str
    code: int
    out_of_memory: bool
    started: str
    finished: str


class Containers:
    """The containers of one test, on a network of their own. The host of the test is at `gateway` there.

    `pause` is an image with `sleep`. Everything that is made carries a label, and `close` removes it.
    """

    def __init__(self, *, pause: str) -> None:
        self._daemon = docker.APIClient(**kwargs_from_env(), timeout=120)
        self._pause = pause
        self.mark = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._labels = {LABEL: self.mark}
        self._network = f"pods-{self.mark}"
        self._daemon.create_network(self._network, driver="bridge", labels=self._labels)
        address = self._daemon.inspect_network(self._network)["IPAM"]["Config"][0]
        self.gateway = str(address["Gateway"])
        self._lock = threading.Lock()
        self._closed = False
        self._started: list[subprocess.Popen[bytes]] = []
        self._followers: list[threading.Thread] = []

    def image_id(self, image: str) -> str | None:
        """The id of an image, None where the daemon lacks it."""
        try:
            return str(self._daemon.inspect_image(image)["Id"])
        except ImageNotFound:
            return None

    def user_of(self, image: str) -> str:
        """As whom an image runs; "" is root."""
        return str(self._daemon.inspect_image(image)["Config"].get("User") or "")

    def sandbox(
        self, uid: str, name: str, *, hostname: str, aliases: Sequence[str], search: Sequence[str],
        dns: str | None, hosts: Mapping[str, str], mounts: Sequence[Json],
    ) -> Sandbox:  # fmt: skip
        """Start what holds the network and the volumes of a pod, whatever becomes of its containers."""
        host = self._daemon.create_host_config(
            network_mode=self._network, mounts=list(mounts), extra_hosts=dict(hosts),
            dns=[dns] if dns else None, dns_search=list(search), dns_opt=["ndots:5"],
        )  # fmt: skip
        made = self._create(
            self._pause, name=name, entrypoint=PAUSE[:1], command=PAUSE[1:], hostname=hostname, user="0",
            labels=self._labels | {POD: uid}, host_config=host,
            networking_config={"EndpointsConfig": {self._network: {"Aliases": list(aliases)}}},
        )  # fmt: skip
        self._start(made)
        networks = self._daemon.inspect_container(made)["NetworkSettings"]["Networks"]
        return Sandbox(made, networks[self._network]["IPAddress"])

    def create(self, uid: str, sandbox: Sandbox, wish: Wish) -> str:
        """Make a container in a sandbox; gives its id. Raises CannotStart."""
        host = self._daemon.create_host_config(
            network_mode=f"container:{sandbox.id}", mounts=list(wish.mounts), **wish.host
        )
        return self._create(
            wish.image, name=wish.name, entrypoint=list(wish.entrypoint) or None, command=list(wish.command) or None,
            environment=dict(wish.env), working_dir=wish.working_dir or None, user=wish.user or None,
            labels=self._labels | {POD: uid}, host_config=host,
        )  # fmt: skip

    def start(self, container: str, log: Path, on_end: Callable[[Ended], None]) -> str:
        """Start a container, whose output goes to a file; gives the time. Once it has ended and its whole output is in
        the file, `on_end` is called. Raises CannotStart."""
        self._start(container)
        started = self._daemon.inspect_container(container)["State"]["StartedAt"]
        follower = threading.Thread(
            target=self._follow, args=(container, log, on_end), name=f"kubelet-log-{container[:12]}", daemon=True
        )
        self._followers.append(follower)
        follower.start()
        return _time(started)

    def kill(self, container: str, signal: str = "") -> None:
        """Send a signal to the first process of a container; without one, that with which its image wants to be ended.
        Does nothing where it has ended."""
        try:
            if not signal:
                config = self._daemon.inspect_container(container)["Config"]
                signal = config.get("StopSignal") or "SIGTERM"
            self._daemon.kill(container, signal)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise

    def remove(self, container: str) -> None:
        """Kill a container and remove it."""
        try:
            self._daemon.remove_container(container, force=True, v=True)
        except APIError as error:
            if error.status_code not in (404, 409):  # 409: somebody else is removing it
                raise

    def memory_volume(self, name: str, size: int | None) -> str:
        """A file system in memory, which is there while any container has it; gives its name."""
        options = "mode=0777" + (f",size={size}" if size else "")
        about = {"type": "tmpfs", "device": "tmpfs", "o": options}
        self._daemon.create_volume(f"{self.mark}-{name}", driver_opts=about, labels=self._labels)
        return f"{self.mark}-{name}"

    def remove_volume(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            self._daemon.remove_volume(name)

    def pids(self, container: str) -> list[int]:
        """The processes of a container, by their pids on this machine."""
        told = self._daemon.top(container, ps_args="-o pid")
        return [int(line[0]) for line in told["Processes"]]

    def first_pid(self, container: str) -> int:
        """The first process of a container, by its pid on this machine. Raises OSError if it has ended."""
        try:
            pid = int(self._daemon.inspect_container(container)["State"]["Pid"])
        except NotFound:
            pid = 0
        if not pid:
            raise OSError("it has ended")
        return pid

    def execute(self, container: str, command: Sequence[str], *, stdin: bool) -> subprocess.Popen[bytes]:
        """Start a command in a container, with pipes. Raises OSError where everything has ended."""
        words = ["docker", "exec", *(["--interactive"] if stdin else []), container, *command]
        pipes = {"stdin": subprocess.PIPE if stdin else subprocess.DEVNULL}
        with self._lock:
            if self._closed:
                raise OSError("the kubelet has stopped")
            started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **pipes)
            self._started.append(started)
        return started

    def left(self) -> list[str]:
        """The names of what there is of this test: containers, networks, volumes."""
        mine = {"label": f"{LABEL}={self.mark}"}
        containers = [name for one in self._daemon.containers(all=True, filters=mine) for name in one["Names"]]
        networks = [one["Name"] for one in self._daemon.networks(filters=mine)]
        volumes = [one["Name"] for one in self._daemon.volumes(filters=mine)["Volumes"] or ()]
        return [*containers, *networks, *volumes]

    def refuse(self) -> None:
        """Start nothing from now on."""
        with self._lock:
            self._closed = True

    def close(self) -> None:
        """End and remove everything."""
        self.refuse()
        for process in self._started:
            process.kill()
            process.wait()
        mine = {"label": f"{LABEL}={self.mark}"}
        for one in self._daemon.containers(all=True, filters=mine):
            self.remove(one["Id"])
        for follower in self._followers:
            follower.join()
        for one in self._daemon.volumes(filters=mine)["Volumes"] or ():
            self.remove_volume(one["Name"])
        for one in self._daemon.networks(filters=mine):
            self._remove_network(one["Id"])

    def _remove_network(self, network: str) -> None:
        try:
            self._daemon.remove_network(network)
        except APIError as error:
            # Docker 20.10 may forget the endpoint of a container that it removed while that started.
            if "has active endpoints" not in str(error) or self._daemon.inspect_network(network)["Containers"]:
                raise

    def disconnect(self) -> None:
        """Let go of the daemon."""
        self._daemon.close()

    def _create(self, image: str, **how: Any) -> str:
        if self._closed:
            raise CannotStart("CreateContainerError", "the kubelet has stopped")
        try:
            return str(self._daemon.create_container(image, **how)["Id"])
        except ImageNotFound as error:
            raise CannotStart("ErrImagePull", f'image "{image}" is not there') from error
        except APIError as error:
            raise CannotStart("CreateContainerError", str(error.explanation or error)) from error

    def _start(self, container: str) -> None:
        try:
            self._daemon.start(container)
        except APIError as error:
            raise CannotStart("StartError", str(error.explanation or error)) from error

    def _follow(self, container: str, log: Path, on_end: Callable[[Ended], None]) -> None:
        try:
            written = 0
            with log.open("wb", buffering=0) as file:
                for part in self._daemon.logs(container, stream=True, follow=True):
                    written += file.write(part)
                code = int(self._daemon.wait(container)["StatusCode"])
                # What a follower of a busy daemon may not have seen.
                file.write(self._daemon.logs(container)[written:])
            state = self._daemon.inspect_container(container)["State"]
            times = (_time(state["StartedAt"]), _time(state["FinishedAt"]))
            ended = Ended(container, code, bool(state["OOMKilled"]), *times)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise
            ended = Ended(container, 137, False, now(), now())  # killed and removed, before anybody has looked
        on_end(ended)


def _time(text: str) -> str:
    return f"{text[:19]}Z"
