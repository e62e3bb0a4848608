"""A write in which every rank has a part: whole on all of them, or failed on all of them.

A rank whose disk fails must not leave alone. The others would wait for it in their next
collective until they time out, and a full disk would have killed the run.
"""

from collections.abc import Callable
from typing import TypeVar

from torch.distributed.checkpoint.api import CheckpointException

from tinymodels.world import World

T = TypeVar("T")


class Unwritten(Exception):
    """Some rank's disk failed; raised on every rank, with the words of that disk."""


def together(world: World, part: Callable[[], T]) -> T:
    """All ranks: do a part each, then agree on how it went. Any error but the disk's goes its way."""
    done: list[T] = []
    failed: str | None = None
    try:
        done.append(part())
    except OSError as problem:
        failed = f"rank {world.rank}: {problem}"
    except CheckpointException as problem:  # dcp's: it has told all ranks what befell one of them
        failed = disk_error(problem)
    for told in world.gather(failed):
        if told is not None:
            raise Unwritten(told)
    return done[0]


def disk_error(problem: CheckpointException) -> str:
    """What the disk said, if it was a disk that failed, on whichever rank; else the error itself."""
    causes = [(rank, cause) for rank, (cause, _) in problem.failures.items()]
    if not all(isinstance(cause, OSError) for _, cause in causes):
        raise problem
    rank, cause = causes[0]
    return f"rank {rank}: {cause}"
