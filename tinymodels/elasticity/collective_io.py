"""A read or write in which every rank has a part: it succeeds on all ranks, or fails on all ranks.

If a rank left alone because its disk failed, the others would wait for it in their next collective until the timeout:
one full disk would end the run. A slow disk must not end it either. A rank that waits longer than a collective may take
would give up its peer for dead. So a thread does the part, and meanwhile the ranks tell each other that they are alive.
A rank that is frozen is still noticed.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

import torch
from torch.distributed.checkpoint.api import CheckpointException

from tinymodels.elasticity.world import World
from tinymodels.preemption.exits import Refused, exit_at_once

T = TypeVar("T")
HEARTBEAT = 0.1  # seconds


class StorageFailed(Exception):
    """The disk of some rank failed. Raised on every rank, with the error message of that disk."""


def on_all_ranks(world: World, part: Callable[[], T]) -> T:
    """Do this rank's part, then agree with the other ranks on the outcome. Call it on all ranks.

    Returns the result of this rank's part. Raises `StorageFailed` on all ranks if the disk of one rank failed; any
    other error is raised as it is, on its own rank. The part must not use the process group of the training loop.
    """
    done = start(world, part)
    waited = 0.0
    while True:
        wait([done], timeout=HEARTBEAT)
        finished, failed = done.done(), storage_error(world, done)
        try:
            states = world.gather((finished, failed))
        except BaseException:
            if not finished:
                exit_at_once()  # the thread may wait for a disk or a peer, and would keep the process alive
            raise
        if all(over for over, _ in states):
            break
        waited += HEARTBEAT
        if waited > world.patience:
            if world.leads:
                Refused(f"the storage has not answered for {world.patience:g} s").report()
            exit_at_once()
    for _, problem in states:
        if problem is not None:
            raise StorageFailed(problem)
    return done.result()


def start(world: World, part: Callable[[], T]) -> Future[T]:
    """Do the part in a thread that does not outlive the process."""
    done: Future[T] = Future()

    def work() -> None:
        try:
            if world.device.type == "cuda":
                torch.cuda.set_device(world.device)  # the current device belongs to the thread
            done.set_result(part())
        except BaseException as problem:
            done.set_exception(problem)

    Thread(target=work, daemon=True).start()
    return done


def storage_error(world: World, done: Future[T]) -> str | None:
    """Return the error message of a failed disk, or None. Raises any other error of the part."""
    if not done.done() or (problem := done.exception()) is None:
        return None
    if isinstance(problem, OSError):
        return f"rank {world.rank}: {problem}"
    if isinstance(problem, CheckpointException):  # torch has sent all ranks the errors of all ranks
        failures = [(rank, cause) for rank, (cause, _) in problem.failures.items()]
        if all(isinstance(cause, OSError) for _, cause in failures):
            rank, cause = failures[0]
            return f"rank {rank}: {cause}"
    raise problem
