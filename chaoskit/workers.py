"""How many experiments go side by side where nobody says: as many as the machine has cores and memory for."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
from collections.abc import Sequence

from chaoskit.memory import memory

GIB = 2**30
#: A rank of a small job and its share of the launcher, with room to spare.
MEMORY_OF_A_RANK = 0.75 * GIB
_ACCELERATORS = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel*", "/dev/davinci*")


def fitting(command: Sequence[str], *, experiments: int) -> int:
    """For a job under torchrun, twice as many as its ranks would fill the cores with: ranks wait for each other, for
    their launcher and for the disk half of their time. One, where the number of ranks cannot be told, an accelerator
    would have to be shared, or pytest-xdist is not there."""
    ranks = _ranks(command)
    if ranks is None or importlib.util.find_spec("xdist") is None or any(map(glob.glob, _ACCELERATORS)):
        return 1
    by_cores = 2 * len(os.sched_getaffinity(0)) // ranks
    by_memory = int(memory("MemAvailable") / (ranks * MEMORY_OF_A_RANK))
    return max(1, min(experiments, by_cores, by_memory))


def chosen(wish: str | None, command: Sequence[str], *, experiments: int) -> str | None:
    """What pytest is to be told: what was wished, else what fits; None for no workers at all."""
    if wish is not None:
        return wish
    count = fitting(command, experiments=experiments)
    return None if count == 1 else str(count)


def _ranks(command: Sequence[str]) -> int | None:
    """What torchrun is told on its command line; None for another launcher, or another word than a number."""
    names = [os.path.basename(word) for word in command]
    if not {"torchrun", "torch.distributed.run"} & set(names):
        return None
    found = re.search(r"--nproc[-_]per[-_]node[ =](\S+)", " ".join(command))
    if found is None:
        return 1
    return int(found[1]) if found[1].isdecimal() and int(found[1]) > 0 else None
