"""`chaoskit doctor`: checks what this machine supports, and how to install what is missing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chaoskit.cli.meminfo import memory
from chaoskit.engine.run_store import SPACE_NEEDED
from chaoskit.environments.launch import warm
from chaoskit.errors import CannotWarm, ChaoskitError

if TYPE_CHECKING:
    from rich.console import Console

    from chaoskit.environments.registry import EnvironmentType

MIB, GIB = 2**20, 2**30
#: Two ranks need about this much memory.
MEMORY_NEEDED = 2 * GIB
#: gloo and data loaders use shared memory.
SHM_NEEDED = 64 * MIB

BACKENDS = """
import json, torch, torch.distributed as d
up = d.is_available()
print(json.dumps({"distributed": up, "gloo": up and d.is_gloo_available(), "nccl": up and d.is_nccl_available(),
                  "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0}))
"""


@dataclass(frozen=True)
class DoctorFinding:
    """One line of the report: `what` was examined, what was `found`, whether it suffices, and the remedy if not."""

    what: str
    found: str
    good: bool = True
    remedy: str = ""


def examine(root: Path) -> list[DoctorFinding]:
    """Examine everything that a run stored under `root` depends on."""
    return [*_machine(root), *_torch(), *_launches(), *_packages(), *_docker(), *_environments()]


def local_runs(findings: list[DoctorFinding]) -> bool:
    """Whether the default environment is available."""
    from chaoskit.environments import DEFAULT_ENVIRONMENT

    return all(f.good for f in findings if f.what.startswith(f"environment {DEFAULT_ENVIRONMENT}"))


def show(findings: list[DoctorFinding], console: Console) -> None:
    """Print the findings as a table."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold")
    for f in findings:
        mark = Text("ok", style="green") if f.good else Text("--", style="bold yellow")
        table.add_row(mark, Text(f.what), Text(f.found + (f"\n{f.remedy}" if f.remedy and not f.good else "")))
    console.print(table)


def _machine(root: Path) -> Iterator[DoctorFinding]:
    yield DoctorFinding("python", f"{platform.python_version()} ({sys.executable})")
    cores = len(os.sched_getaffinity(0))
    yield DoctorFinding("cores", str(cores), cores >= 2, "two ranks on one core work, but slowly")
    free, whole = (memory(line) for line in ("MemAvailable", "MemTotal"))
    found = f"{free / GIB:.1f} of {whole / GIB:.1f} GiB available"
    yield DoctorFinding("memory", found, free >= MEMORY_NEEDED, "close other programs")
    existing = next(p for p in (root, *root.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    remedy = "free disk space, or store runs elsewhere with --dir"
    if os.access(existing, os.W_OK):
        yield DoctorFinding("disk", f"{free / GIB:.1f} GiB free under {root}", free >= SPACE_NEEDED, remedy)
    else:
        yield DoctorFinding("disk", f"{existing} is not writable", False, "store runs elsewhere with --dir")
    try:
        shm = shutil.disk_usage("/dev/shm").free
    except OSError:
        yield DoctorFinding("shared memory", "no /dev/shm", False, "mount -t tmpfs tmpfs /dev/shm")
    else:
        remedy = "in a container, start it with --shm-size=1g or --ipc=host"
        yield DoctorFinding("shared memory", f"{shm / MIB:.0f} MiB free in /dev/shm", shm >= SHM_NEEDED, remedy)


def _torch() -> Iterator[DoctorFinding]:
    version = _version("torch")
    if version is None:
        remedy = "pip install torch in the Python environment that the job runs in"
        yield DoctorFinding("torch", "not installed in chaoskit's Python environment", False, remedy)
        return
    try:
        done = subprocess.run([sys.executable, "-c", BACKENDS], capture_output=True, text=True, timeout=120)
        told = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError, OSError) as error:
        found = f"{version}, but the import fails ({error})"
        yield DoctorFinding("torch", found, False, "pip install --force-reinstall torch")
        return
    yield DoctorFinding("torch", version)
    there = [name for name in ("gloo", "nccl") if told[name]]
    remedy = "install a build of torch with distributed support"
    yield DoctorFinding("backends", ", ".join(there) or "none", bool(there), remedy)
    devices = f"{told['cuda']} CUDA devices" if told["cuda"] else "none: ranks run on the CPU"
    yield DoctorFinding("accelerators", devices)


def _launches() -> Iterator[DoctorFinding]:
    if _version("torch") is None:
        return
    try:
        reason = warm.trial(dict(os.environ), os.getcwd())
    except CannotWarm as error:
        reason = str(error)
    found = "warm launches work" if reason is None else f"cold launches only: {reason}"
    yield DoctorFinding("launches", found, reason is None, "experiments still work, but each launch is slower")


def _packages() -> Iterator[DoctorFinding]:
    for name, remedy in (("xxhash", "pip install xxhash"), ("pytest-xdist", "pip install pytest-xdist, for -n")):
        version = _version(name)
        yield DoctorFinding(name, version or "not installed", version is not None, remedy)


def _docker() -> Iterator[DoctorFinding]:
    from chaoskit.environments.docker import about

    try:
        told = about.ask()
    except ChaoskitError as error:
        found, _, remedy = str(error).partition(": ")
        group = about.socket_group()
        belongs = f" (the socket belongs to {group})" if group else ""
        yield DoctorFinding("docker", found, False, f"{remedy}{belongs}; only --env docker needs it")
    else:
        yield DoctorFinding("docker", str(told), not told.lacks, told.remedy)


def _environments() -> Iterator[DoctorFinding]:
    from chaoskit.environments.registry import DEFAULT_ENVIRONMENT, environments

    usable: list[EnvironmentType] = []
    for name, kind in environments().items():
        why = kind.available()
        default = " (default)" if name == DEFAULT_ENVIRONMENT else ""
        found = why or f"available{default}: {kind.traits.summary}"
        yield DoctorFinding(f"environment {name}", found, why is None)
        if why is None and any(kind.traits.storage):
            usable.append(kind)
    if not usable:
        return
    # Only an environment that can run says whether it has storage: without a daemon, Docker's cannot.
    whys = [kind.storage_available() for kind in usable]
    why = None if None in whys else whys[0]
    yield DoctorFinding("storage", why or "recording and storage faults are available", why is None)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
