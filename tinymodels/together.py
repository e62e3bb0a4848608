"""A read or write in which every rank has a part: done on all of them, or failed on all of them.

A rank whose disk fails must not leave alone. The others would wait for it in their next
collective until they time out, and a full disk would have killed the run.

Nor may a slow disk: who waits for a rank that writes longer than a collective may take would give it up for dead. So
the part is done by a thread, and the ranks keep telling each other that they live. Whoever is frozen is still missed.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

import torch
from torch.distributed.checkpoint.api import CheckpointException

from tinymodels.endings import Refused, leave_at_once
from tinymodels.world import World

T = TypeVar("T")
BEAT = 0.1  # seconds between two signs of life


class Unwritten(Exception):
    """Some rank's disk failed; raised on every rank, with the words of that disk."""


def together(world: World, part: Callable[[], T]) -> T:
    """All ranks: do a part each, then agree on how it went. Any error but the disk's goes its way.

    A part must not use the group of all ranks, in which they talk meanwhile.
    """
    done = begin(world, part)
    waited = 0.0
    while True:
        wait([done], timeout=BEAT)
        finished, failed = done.done(), problem_of(world, done)
        try:
            told = world.gather((finished, failed))
        except BaseException:
            if not finished:
                leave_at_once()  # a thread that waits for a disk or a peer would keep us from leaving
            raise
        if all(over for over, _ in told):
            break
        waited += BEAT
        if waited > world.patience:
            if world.leads:
                Refused(f"the storage has not answered for {world.patience:g} s").tell()
            leave_at_once()
    for _, problem in told:
        if problem is not None:
            raise Unwritten(problem)
    return done.result()


def begin(world: World, part: Callable[[], T]) -> Future[T]:
    """Do it in a thread, which does not outlive the process."""
    done: Future[T] = Future()

    def work() -> None:
        try:
            if world.device.type == "cuda":
                torch.cuda.set_device(world.device)  # each thread has one of its own
            done.set_result(part())
        except BaseException as problem:
            done.set_exception(problem)

    Thread(target=work, daemon=True).start()
    return done


def problem_of(world: World, done: Future[T]) -> str | None:
    """What the disk said, if it failed; raises any other error."""
    if not done.done() or (problem := done.exception()) is None:
        return None
    if isinstance(problem, OSError):
        return f"rank {world.rank}: {problem}"
    if isinstance(problem, CheckpointException):  # dcp's: it has told all ranks what befell one of them
        return disk_error(problem)
    raise problem


def disk_error(problem: CheckpointException) -> str:
    """What the disk said, if it was a disk that failed, on whichever rank; else the error itself."""
    causes = [(rank, cause) for rank, (cause, _) in problem.failures.items()]
    if not all(isinstance(cause, OSError) for _, cause in causes):
        raise problem
    rank, cause = causes[0]
    return f"rank {rank}: {cause}"
