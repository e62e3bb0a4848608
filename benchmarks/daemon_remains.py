"""What a killed harness has left in the Docker daemon of this machine, which others use meanwhile.

Containers and networks are recognised by the directory of the runs, the ids of runs and the harness in all that the
daemon says of them. Whatever bears no name counts if it was not there before and nobody claims it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.docker import objects
from chaoskit.environments.machine.processes import Process

#: Images with this label are made by tests, of which some may run now.
TEST_IMAGE = "chaoskit.tests.image"


def docker(*words: str, given: str | None = None) -> str:
    """Call the docker client."""
    done = subprocess.run(["docker", *words], input=given, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def described(kind: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """What the daemon says of these objects; nothing of those that have gone."""
    if not ids:
        return []
    done = subprocess.run(["docker", kind, "inspect", *ids], capture_output=True, text=True, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return found


@dataclass(frozen=True)
class Daemon:
    """Where the daemon keeps the network namespaces of its containers, and the address of its containerd."""

    namespaces: Path
    containerd: str

    @classmethod
    def of(cls, container: str) -> Daemon:
        """Found by a container that runs."""
        (about,) = described("container", [container])
        return cls(Path(about["NetworkSettings"]["SandboxKey"]).parent, dict(_shims())[about["Id"]])


@dataclass(frozen=True)
class Nameless:
    """What bears no name of ours, as things are now: volumes that no container has, images but for layers of others,
    and what no container or network claims: network namespaces, bridges, shims."""

    volumes: frozenset[str]
    images: frozenset[str]
    namespaces: frozenset[str]
    bridges: frozenset[str]
    shims: frozenset[str]

    @classmethod
    def now(cls, daemon: Daemon) -> Nameless:
        """What there is is listed before those who may claim it, so that nothing that is just being made counts."""
        # The daemon removes the file of a namespace a minute after it has unmounted the namespace.
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines() if " nsfs " in line]
        places = {words[4] for words in mounts if Path(words[4]).parent == daemon.namespaces}
        bridges = {path.name for path in Path("/sys/class/net").glob("br-*")}
        shims = {container for container, address in _shims() if address == daemon.containerd}
        tests = set(docker("images", "--quiet", "--no-trunc", "--filter", f"label={TEST_IMAGE}").split())
        images = set(docker("images", "--quiet", "--no-trunc").split())
        volumes = set(docker("volume", "ls", "--quiet", "--filter", "dangling=true").split())
        containers = described("container", docker("ps", "--all", "--quiet", "--no-trunc").split())
        networks = docker("network", "ls", "--quiet", "--no-trunc").split()
        used = {one["NetworkSettings"]["SandboxKey"] for one in containers}
        return cls(
            volumes=frozenset(volumes),
            images=frozenset(images - tests),
            namespaces=frozenset(places - used),
            bridges=frozenset(bridges - {f"br-{network[:12]}" for network in networks}),
            shims=frozenset(shims - {one["Id"] for one in containers}),
        )


def _shims() -> Iterator[tuple[str, str]]:
    """The containers for which a process of containerd stands by, each with the address of that containerd."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if "containerd-shim" in words[0] and "-id" in words and "-address" in words:
            yield words[words.index("-id") + 1], words[words.index("-address") + 1]


def left(root: Path, harness: Process, *, before: Nameless, daemon: Daemon) -> dict[str, list[str]]:
    """What the daemon has of the runs under `root` whose harness was this process, by kind."""
    names = [str(root), *(path.name for path in root.glob("runs/*"))]

    def ours(found: dict[str, Any], labels: dict[str, str] | None) -> bool:
        try:
            owner = json.loads((labels or {})[objects.OWNER])
            mine = (owner["pid"], owner["start"]) == (harness.pid, harness.started)
        except (KeyError, ValueError):
            mine = False
        return mine or any(name in json.dumps(found) for name in names)

    containers = described("container", docker("ps", "--all", "--quiet", "--no-trunc").split())
    networks = described("network", docker("network", "ls", "--quiet", "--no-trunc").split())
    now = Nameless.now(daemon)
    return {
        "containers": [one["Name"] for one in containers if ours(one, one["Config"]["Labels"])],
        "networks": [one["Name"] for one in networks if ours(one, one["Labels"])],
        "volumes": sorted(now.volumes - before.volumes),
        "images": sorted(now.images - before.images),
        "network namespaces": sorted(now.namespaces - before.namespaces),
        "bridges": sorted(now.bridges - before.bridges),
        "shims": sorted(now.shims - before.shims),
    }
