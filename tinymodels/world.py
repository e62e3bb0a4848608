"""The ranks that train together: who we are, how many, and how to agree on something."""

import gc
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tinymodels.endings import Refused


@dataclass(frozen=True)
class World:
    """This process's place among the ranks. A world of one is a world too: no special cases."""

    rank: int
    size: int
    device: torch.device
    timeout: float = 120.0  # seconds that a peer may be silent,
    patience: float = 1800.0  # and a storage

    @classmethod
    def join(cls, device: str = "auto", timeout: float = 120.0) -> "World":
        """Join the process group that torchrun described, or found a world of one."""
        rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        place = int(os.environ.get("LOCAL_RANK", "0"))
        neighbours = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        if device == "auto":
            enough = torch.cuda.is_available() and torch.cuda.device_count() >= neighbours
            device = "cuda" if enough else "cpu"

        if device == "cuda":
            here = torch.device("cuda", place)
            torch.cuda.set_device(here)
            # Tensors travel over nccl; small Python objects can stay on the CPU.
            backend = "cpu:gloo,cuda:nccl"
        else:
            here, backend = torch.device("cpu"), "gloo"

        # A dead or frozen peer must become an error here, not an endless wait.
        cls.meet(backend, timedelta(seconds=timeout))
        return cls(rank, size, here, timeout)

    @staticmethod
    def meet(backend: str, limit: timedelta) -> None:
        """Found the process group, with whoever the launcher says is there."""
        if "RANK" in os.environ:
            dist.init_process_group(backend, timeout=limit)
        else:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=limit)

    @property
    def leads(self) -> bool:
        """Is this the rank that speaks, decides and publishes?"""
        return self.rank == 0

    def barrier(self) -> None:
        """Wait for every rank."""
        dist.barrier()

    def agree(self, decision: Any) -> Any:
        """Everyone takes rank 0's decision, whatever they think themselves."""
        box = [decision]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def total(self, value: torch.Tensor) -> float:
        """The sum of a number over the ranks."""
        value = value.detach().to("cpu", torch.float64)
        dist.all_reduce(value)
        return float(value)

    def any(self, mine: bool) -> bool:
        """Is it so on any rank?"""
        return self.total(torch.tensor(float(mine))) > 0

    def gather(self, mine: Any) -> list[Any]:
        """What every rank has to say, in the order of their ranks."""
        said = [None] * self.size
        dist.all_gather_object(said, mine)
        return said

    def insist(self, what: str, mine: Any) -> None:
        """All ranks must hold the same of this; else stop before the difference does harm."""
        held = self.gather(mine)
        if any(theirs != mine for theirs in held):
            raise RuntimeError(f"the ranks disagree about {what}: {held}")

    def compare(self, about: dict[str, Any]) -> None:
        """Each node was started by a command of its own; they must have asked for the same run."""
        first, *others = self.gather(about)
        for rank, other in enumerate(others, start=1):
            for name, value in other.items():
                if value != first[name]:
                    told = f"{name} is {first[name]} on rank 0, {value} on {rank}"
                    raise Refused(f"the ranks were started apart: {told}")

    def aside(self) -> dist.ProcessGroup:
        """A group for a thread, whose words must not get between those of the trainer.

        Who talks there may have to wait for somebody's disk. That a peer is gone is noticed elsewhere.
        """
        return dist.new_group(backend="gloo", timeout=timedelta(seconds=max(self.timeout, self.patience)))

    def say(self, line: str) -> None:
        """One line, said once."""
        if self.leads:
            print(line, flush=True)

    def leave(self) -> None:
        """Part in good order; the last act of a rank.

        DDP keeps the group alive, reference cycles keep DDP alive, and threads of a living group
        may still hold tensors. One that lets go of them while the interpreter shuts down aborts
        the process ("terminate called without an active exception"): a good run, a bad exit code.
        So collect the cycles, then end the group, then wait for its threads, in this order.
        """
        gc.collect()
        dist.destroy_process_group()
