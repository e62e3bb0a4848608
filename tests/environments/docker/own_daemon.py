"""A Docker daemon of the test's own, which may be killed, and whose disk may be full.

It has a network namespace of its own: it finds no interface and no firewall of the daemon that runs on the machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaoskit.environments.machine import processes
from tests.docker_images.images import docker


class OwnDaemon:
    """A daemon that keeps all that it has below `place`; `data` holds its images and containers."""

    def __init__(self, place: Path, *, data: Path) -> None:
        self.address = f"unix://{place}/docker.sock"
        self._place, self._data = place, data
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it answers afterwards."""
        options = {"data-root": self._data, "exec-root": self._place / "exec", "pidfile": self._place / "pid"}
        words = [f"--{name}={value}" for name, value in options.items()]
        with (self._place / "dockerd.log").open("ab") as log:
            command = ["unshare", "--net", "dockerd", *words, "--host", self.address]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while subprocess.run(["docker", "--host", self.address, "version"], capture_output=True).returncode:
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.2)

    def kill(self) -> None:
        """End it as a crash would: its containers run on. Afterwards it can be started again."""
        noted = self._place / "exec" / "containerd" / "containerd.pid"
        containerd = processes.identify(int(noted.read_text()))
        assert containerd is not None
        self._end(signal.SIGKILL)
        # The kernel ends it with its parent. Until somebody reaps it, a new daemon would take it for alive.
        assert processes.wait_gone([containerd], timeout=20)
        for pid in (noted, self._place / "pid"):
            pid.unlink()

    def stop(self) -> None:
        """End it and its containers."""
        self._end(signal.SIGTERM)

    def _end(self, signum: int) -> None:
        if self._process is not None:
            self._process.send_signal(signum)
            self._process.wait(60)
            self._process = None

    def copy(self, image: str) -> None:
        """Give it an image of the daemon that runs on the machine."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
            loading = ["docker", "--host", self.address, "load", "--quiet"]
            subprocess.run(loading, stdin=saving.stdout, check=True, capture_output=True)

    def docker(self, *words: str) -> str:
        """Call the docker client for this daemon."""
        return docker("--host", self.address, *words)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Keep the disk full that it stores on: what it frees is taken at once."""
        filler, over = self._data / "filler", threading.Event()

        def fill() -> None:
            with filler.open("wb", buffering=0) as file:
                while not over.wait(0.002):
                    with suppress(OSError):
                        while file.write(bytes(4096)):
                            pass

        thread = threading.Thread(target=fill)
        thread.start()
        try:
            while shutil.disk_usage(self._data).free > 0:
                time.sleep(0.01)
            yield
        finally:
            over.set()
            thread.join()
            filler.unlink()

    def objects(self) -> list[str]:
        """Its containers, the networks that it did not make itself, and its volumes."""
        networks = self.docker("network", "ls", "--quiet", "--filter", "type=custom").split()
        volumes = self.docker("volume", "ls", "--quiet").split()
        return [*self.docker("ps", "--all", "--quiet").split(), *networks, *volumes]

    def log(self) -> str:
        """What it said."""
        return (self._place / "dockerd.log").read_text()

    def alive(self) -> list[str]:
        """The processes that have its directory on their command line."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue
            if os.fsencode(self._place) in words:
                found.append(words.replace(b"\0", b" ").decode(errors="replace"))
        return found
