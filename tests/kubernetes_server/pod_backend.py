"""Where the processes of pods are: what a kubelet would be asked for. Here they are processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

Json = dict[str, Any]


class PodBackend(Protocol):
    """What exec, port-forward and log need of a pod; each raises OSError for what cannot be."""

    def execute(self, pod: Json, container: str, command: Sequence[str], *, stdin: bool) -> subprocess.Popen[bytes]:
        """Start a command in a container, with pipes."""
        ...

    def connect(self, pod: Json, port: int) -> socket.socket:
        """Connect to a port of a pod."""
        ...

    def log(self, pod: Json, container: str, *, previous: bool) -> Path:
        """The file that holds what a container wrote, or what the one before it wrote."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


class LocalProcesses:
    """Commands run here in a directory, ports are ports of this machine, and logs are files of the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.started: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def execute(self, pod: Json, container: str, command: Sequence[str], *, stdin: bool) -> subprocess.Popen[bytes]:
        if self._closed:
            raise OSError("the server has stopped")
        env = os.environ | {"HOSTNAME": pod["metadata"]["name"]}
        pipes = {"stdin": subprocess.PIPE if stdin else subprocess.DEVNULL}
        started = subprocess.Popen(
            command, cwd=self._directory, env=env, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **pipes,
        )  # fmt: skip
        self.started.append(started)
        return started

    def connect(self, pod: Json, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), timeout=10)

    def log(self, pod: Json, container: str, *, previous: bool) -> Path:
        path = self._directory / f"{pod['metadata']['uid']}.{container}{'.previous' if previous else ''}.log"
        if not path.exists():
            raise FileNotFoundError(path)
        return path

    def close(self) -> None:
        self._closed = True
        for started in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
