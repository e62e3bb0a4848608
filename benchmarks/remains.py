"""What a killed harness has left on this machine: processes, mounts, directories, sockets.

Nothing is taken from chaoskit's own lists: whatever names the directory of the runs, or the harness, counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from chaoskit.environments.machine.processes import Process

KINDS = ("processes", "mounts", "directories", "sockets")


def left(root: Path, harness: Process) -> dict[str, list[str]]:
    """What there is of the runs under `root` whose harness was this process, by kind."""
    scratch = list(_scratch(harness))
    names = [os.fsencode(name) for name in (root, *scratch, *(path.name for path in root.glob("runs/*")))]
    processes, mounts = set(), set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes() + b"\0" + (path / "environ").read_bytes()
            mounted = (path / "mountinfo").read_bytes().splitlines()
        except OSError:
            continue
        if int(path.name) != os.getpid() and any(name in words for name in names):
            processes.add(f"{path.name} {words[:200]!r}")
        mounts |= {os.fsdecode(line.split(b" ", 1)[1]) for line in mounted if any(name in line for name in names)}
    slots = [str(path) for path in root.glob("runs/*/slots/*")]
    sockets = [str(path) for path in root.glob("runs/**/*") if path.is_socket()]
    found = (sorted(processes), sorted(mounts), [*map(str, scratch), *slots], sockets)
    return dict(zip(KINDS, found, strict=True))


def _scratch(harness: Process) -> Iterator[Path]:
    """The temporary directories of runs that name this harness as their owner, or nobody."""
    for place in Path("/tmp").glob(f"chaoskit-{os.getuid()}-*"):
        try:
            owner = json.loads((place / "owner.json").read_text())
        except (OSError, ValueError):
            owner = {}
        if owner.get("pid", harness.pid) == harness.pid and owner.get("start", harness.started) == harness.started:
            yield place
