"""`StorageMount`: a storage of ours that is mounted on this machine and then shown to containers as their `{out}`.

The harness must be root, on the machine of the daemon: only then do both see the same mounts. Containers get no
privilege for it. What is shown in place of `{out}` changes while they run: it is mounted over a directory whose mounts
reach them (a shared mount here, of which theirs is a slave).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from chaoskit.environments.docker.container_nodes import ContainerNode
from chaoskit.environments.docker.host_paths import host_paths
from chaoskit.environments.docker.places import Place
from chaoskit.environments.fusefs.storage import trial
from chaoskit.environments.launch.host import call
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.errors import UsageError

_MS_BIND, _MS_PRIVATE, _MS_SHARED = 0x1000, 0x40000, 0x100000


@cache
def why_not() -> str | None:
    """None if containers can have a storage of ours, else the reason and the remedy."""
    if os.geteuid() != 0:
        return "containers see a file system of chaoskit's own only if root mounts it: run chaoskit as root"
    if host_paths().container:
        return "the Docker daemon does not see what is mounted in a container: run chaoskit as root outside of one"
    return trial()


class StorageMount:
    """The storage of one run. `place`: what containers find at `{out}`; None for the directory itself."""

    def __init__(self, run: MachineRun) -> None:
        self._run = run
        self._at: Path | None = None

    @property
    def place(self) -> Place | None:
        """See the class."""
        if self._at is None:
            return None
        spec = self._run.spec
        return Place(str(self._at.resolve()), str(spec.out.absolute()), follows=spec.shows)

    def mount(self) -> None:
        """Mount what the specification of the run asks for, if anything. The harness itself goes on to see the
        directory beneath, which no fault hits. Raises UsageError."""
        spec = self._run.spec
        if not (spec.storage or spec.shows):
            return
        if (why := why_not()) is not None:
            raise UsageError(why)
        self._at = self._run.tmp / "out"
        self._at.mkdir()
        if spec.storage:
            self._run.mount(within=_here(), at=self._at)
        else:
            _share(spec.out, self._at)  # taken away with the temporary directory of the run

    def show(self, directory: Path) -> None:
        """Have containers find another directory at their `{out}`. Raises UsageError."""
        if self._at is None or not self._run.spec.shows:
            raise UsageError("the containers of this run were not started to be shown another directory")
        self._run.show(directory, within=_here(), at=self._at)

    def introduce(self, node: ContainerNode) -> None:
        """Tell the storage which node the processes with the network of this container belong to. Raises UsageError if
        the container does not have the storage at `{out}`."""
        if self._run.storage is not None:
            if not _has(node.pid, self._run.spec.out.absolute(), self._run.spec.run_id):
                raise UsageError(
                    f"the container of {node.name} does not see the file system that chaoskit has mounted for it: "
                    "start chaoskit in the mount namespace of the Docker daemon"
                )
            self._run.storage.know(node.name, node.network)


def _here() -> dict[str, str]:
    """The namespace that the daemon sees."""
    return {"mnt": f"/proc/{os.getpid()}/ns/mnt"}


def _has(pid: int, directory: Path, run_id: str) -> bool:
    """Whether a process sees a storage of that run at this path, over all else that is mounted there."""
    lines = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    at = str(directory).translate({ord(each): f"\\{ord(each):03o}" for each in " \t\n\\"})
    found = [line[line.index("-") + 1 :][:2] for line in lines if line[4] == at]
    return found[-1:] == [["fuse.chaoskit", f"chaoskit-{run_id}"]]


def _share(directory: Path, at: Path) -> None:
    """Mount a directory at another path, so that what is mounted there later reaches the containers that have it."""
    target = os.fsencode(at)
    call("mount", os.fsencode(directory), target, None, _MS_BIND, None)
    # Private first: else what is mounted there would be mounted over `directory` too, where that is shared.
    for kind in (_MS_PRIVATE, _MS_SHARED):
        call("mount", None, target, None, kind, None)
