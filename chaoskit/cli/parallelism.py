"""Chooses how many experiments run in parallel by default, from the cores and the memory of the machine."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
from collections.abc import Sequence

from chaoskit.cli.meminfo import memory
from chaoskit.engine.second_control import ACCELERATORS

GIB = 2**30
#: Memory of one rank of a small job and its share of the launcher, with a margin.
MEMORY_OF_A_RANK = 0.75 * GIB


def fitting(command: Sequence[str], *, experiments: int) -> int:
    """Return how many experiments fit on this machine: twice as many as the ranks of a torchrun job fill cores, because
    ranks spend half of their time waiting for each other, the launcher and the disk. Returns 1 if the number of ranks
    is unknown, an accelerator would have to be shared, or pytest-xdist is not installed."""
    ranks = _ranks(command)
    if ranks is None or importlib.util.find_spec("xdist") is None or any(map(glob.glob, ACCELERATORS)):
        return 1
    by_cores = 2 * len(os.sched_getaffinity(0)) // ranks
    by_memory = int(memory("MemAvailable") / (ranks * MEMORY_OF_A_RANK))
    return max(1, min(experiments, by_cores, by_memory))


def chosen(wish: str | None, command: Sequence[str], *, experiments: int) -> str | None:
    """Return the number of workers for pytest: the requested one, if there are as many experiments, else what
    fits; None for no workers."""
    if wish is not None:
        return str(min(int(wish), experiments)) if wish.isdecimal() else wish
    count = fitting(command, experiments=experiments)
    return None if count == 1 else str(count)


def _ranks(command: Sequence[str]) -> int | None:
    """Return the number of ranks on torchrun's command line; None for another launcher, or if it is not a number."""
    names = [os.path.basename(word) for word in command]
    if not {"torchrun", "torch.distributed.run"} & set(names):
        return None
    found = re.search(r"--nproc[-_]per[-_]node[ =](\S+)", " ".join(command))
    if found is None:
        return 1
    return int(found[1]) if found[1].isdecimal() and int(found[1]) > 0 else None
