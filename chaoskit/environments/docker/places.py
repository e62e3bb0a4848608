"""`Places`: what a container sees of this machine, and where: the run, chaoskit itself, and what the user mounts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from chaoskit.environments.docker.host_paths import HostPaths
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.launch.rank_modules import PACKAGE
from chaoskit.job import Job, read_mount
from chaoskit.protocol.fingerprint import LENT, library

#: Where a container has chaoskit, and its compiled hash.
HOME = "/chaoskit"
AGENT = f"{HOME}/chaoskit/environments/agents/agent.py"
LIBRARY = f"{HOME}/xxhash"

#: Where a machine names its name servers; the second is that of systemd, for one that asks a server of its own.
RESOLVERS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
_LOCAL_SERVER = re.compile(r"\s*nameserver\s+(127\.|::1)")


@dataclass(frozen=True)
class Place:
    """`source` on this machine is `target` in a container. `follows`: so is what is mounted over `source` later."""

    source: str
    target: str
    read_only: bool = False
    follows: bool = False


def own_places(host: HostPaths, store: Path | None) -> list[Place]:
    """chaoskit's package, and the library of its hash if it has one. Nothing can be written there."""
    package = host.copy_of(PACKAGE.resolve(), store)
    found = [Place(str(package), f"{HOME}/chaoskit", read_only=True)]
    if path := library():
        copy = host.copy_of(Path(path).resolve(), store)
        found.append(Place(str(copy), f"{LIBRARY}/{os.path.basename(path)}", read_only=True))
    return found


def library_inside() -> str:
    """The path of the hash's library in a container; "" if there is none."""
    path = library()
    return f"{LIBRARY}/{os.path.basename(path)}" if path else ""


def mounted(mounts: tuple[str, ...], directory: Path) -> list[Place]:
    """What the user mounts; a relative source is relative to `directory`."""
    told = [read_mount(each) for each in mounts]
    return [Place(os.path.realpath(directory / source), target, ro) for source, target, ro in told]


def places(spec: RunSpec, *, host: HostPaths, names: Path, resolver: Path, out: Place | None) -> list[Place]:
    """Everything that a node of a run sees; `names` is its /etc/hosts, `resolver` its /etc/resolv.conf, and `out` what
    it finds at `{out}`, if that is not the directory itself. A run has the same path inside as outside, so that records
    mean the same to both."""
    run_dir = spec.run_dir.absolute()
    store = [Place(str(spec.store.resolve()), str(spec.store.absolute()), read_only=True)] if spec.store else []
    return [
        *own_places(host, spec.store),
        *mounted(spec.mounts, spec.cwd),
        *store,
        Place(str(run_dir.resolve()), str(run_dir)),
        *([out] if out is not None else []),
        Place(str(names), "/etc/hosts", read_only=True),
        Place(str(resolver), "/etc/resolv.conf", read_only=True),
    ]


def write_resolver(path: Path, *, own: Sequence[Path] = RESOLVERS) -> None:
    """Write the /etc/resolv.conf of containers: the name servers of this machine that are reached from there. Docker's
    own would know the names of all nodes, whatever a fault does to /etc/hosts."""
    lines: list[str] = []
    for each in own:
        with suppress(OSError):
            lines = [line for line in each.read_text().splitlines() if not _LOCAL_SERVER.match(line)]
        if any(line.startswith("nameserver") for line in lines):
            break
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o644)


def inside(path: str, among: list[Place]) -> str | None:
    """The path in a container of a file of this machine that the user has mounted; None if it is not there."""
    real = PurePosixPath(os.path.realpath(path))
    for place in among:
        if real == PurePosixPath(place.source) or PurePosixPath(place.source) in real.parents:
            return str(PurePosixPath(place.target, real.relative_to(place.source)))
    return None


def here(job: Job, path: str) -> str | None:
    """See `EnvironmentType.path_here`."""
    for place in mounted(tuple(job.mounts), job.directory):
        if path == place.target or path.startswith(place.target.rstrip("/") + "/"):
            return str(Path(place.source, path[len(place.target) :].lstrip("/")))
    return None


def as_mounts(given: list[Place], host: HostPaths) -> list[Mapping[str, Any]]:
    """For the daemon, the outermost first. Unlike `--volume`, it makes no directory for a source that is not there."""
    ordered = sorted(given, key=lambda place: len(PurePosixPath(place.target).parts))
    return [
        {
            "Type": "bind",
            "Source": host.source(place.source),
            "Target": place.target,
            "ReadOnly": place.read_only,
            **({"BindOptions": {"Propagation": "rslave"}} if place.follows else {}),
        }
        for place in ordered
    ]


def variables() -> Mapping[str, str]:
    """The environment variables of an agent."""
    return {LENT: library_inside()} if library_inside() else {}
