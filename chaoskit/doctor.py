"""`doctor`: what this machine can do, and how to get what is missing."""

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

from chaoskit.errors import CannotWarm
from chaoskit.launch import warm
from chaoskit.memory import memory
from chaoskit.store import SPACE_NEEDED

if TYPE_CHECKING:
    from rich.console import Console

MIB, GIB = 2**20, 2**30
#: Two ranks of anything need about this much memory.
MEMORY_NEEDED = 2 * GIB
#: What gloo and data loaders pass through /dev/shm.
SHM_NEEDED = 64 * MIB

BACKENDS = """
import json, torch, torch.distributed as d
up = d.is_available()
print(json.dumps({"distributed": up, "gloo": up and d.is_gloo_available(), "nccl": up and d.is_nccl_available(),
                  "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0}))
"""


@dataclass(frozen=True)
class Finding:
    """One line: `what` was looked at, what was `found`, whether that is enough, and how to get better."""

    what: str
    found: str
    good: bool = True
    remedy: str = ""


def examine(root: Path) -> list[Finding]:
    """Everything that matters to a run whose record is kept under `root`."""
    return [*_machine(root), *_torch(), *_launches(), *_packages(), *_environments()]


def local_runs(findings: list[Finding]) -> bool:
    """Whether the local environment can be used."""
    return all(f.good for f in findings if f.what == "environment local")


def show(findings: list[Finding], console: Console) -> None:
    """A table for people."""
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


def _machine(root: Path) -> Iterator[Finding]:
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    cores = len(os.sched_getaffinity(0))
    yield Finding("cores", str(cores), cores >= 2, "two ranks on one core work, slowly")
    free, whole = (memory(line) for line in ("MemAvailable", "MemTotal"))
    found = f"{free / GIB:.1f} of {whole / GIB:.1f} GiB available"
    yield Finding("memory", found, free >= MEMORY_NEEDED, "close what else is running")
    existing = next(p for p in (root, *root.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    remedy = "make room, or keep runs elsewhere with --dir"
    if os.access(existing, os.W_OK):
        yield Finding("disk", f"{free / GIB:.1f} GiB free under {root}", free >= SPACE_NEEDED, remedy)
    else:
        yield Finding("disk", f"{existing} cannot be written", False, "keep runs elsewhere with --dir")
    try:
        shm = shutil.disk_usage("/dev/shm").free
    except OSError:
        yield Finding("shared memory", "no /dev/shm", False, "mount -t tmpfs tmpfs /dev/shm")
    else:
        remedy = "in a container: --shm-size=1g, or --ipc=host"
        yield Finding("shared memory", f"{shm / MIB:.0f} MiB free in /dev/shm", shm >= SHM_NEEDED, remedy)


def _torch() -> Iterator[Finding]:
    version = _version("torch")
    if version is None:
        remedy = "pip install torch, in the environment that the job runs in"
        yield Finding("torch", "not installed beside chaoskit", False, remedy)
        return
    try:
        done = subprocess.run([sys.executable, "-c", BACKENDS], capture_output=True, text=True, timeout=120)
        told = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError, OSError) as error:
        found = f"{version}, but it cannot be imported ({error})"
        yield Finding("torch", found, False, "pip install --force-reinstall torch")
        return
    yield Finding("torch", version)
    there = [name for name in ("gloo", "nccl") if told[name]]
    remedy = "install a build of torch with distributed support"
    yield Finding("backends", ", ".join(there) or "none", bool(there), remedy)
    yield Finding("accelerators", f"{told['cuda']} CUDA devices" if told["cuda"] else "none: ranks run on the CPU")


def _launches() -> Iterator[Finding]:
    if _version("torch") is None:
        return
    try:
        reason = warm.trial(dict(os.environ), os.getcwd())
    except CannotWarm as error:
        reason = str(error)
    found = "can be warm" if reason is None else f"cold only: {reason}"
    yield Finding("launches", found, reason is None, "it works all the same, slowly")


def _packages() -> Iterator[Finding]:
    for name, remedy in (("xxhash", "pip install xxhash"), ("pytest-xdist", "pip install pytest-xdist, for -n")):
        version = _version(name)
        yield Finding(name, version or "not installed", version is not None, remedy)


def _environments() -> Iterator[Finding]:
    from chaoskit.environments import ENVIRONMENTS, LocalEnvironment

    for name, kind in ENVIRONMENTS.items():
        why = kind.available()
        yield Finding(f"environment {name}", why or "can be used", why is None)
    why = LocalEnvironment.storage_available()
    yield Finding("storage", why or "can be recorded, and made to fail", why is None)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
