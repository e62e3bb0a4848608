"""The ranks that train together (the "world" of WORLD_SIZE): this rank's place among them, and how they agree."""

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tinymodels.config import Config
from tinymodels.preemption.exits import LaunchEnd, Refused


@dataclass(frozen=True)
class World:
    """This process among the ranks. A single process is a world of size 1, with no special cases.

    Every method below that communicates must be called by all ranks.
    """

    rank: int
    size: int
    device: torch.device
    timeout: float = 120.0  # seconds that a collective may take before the rank gives up
    patience: float = 1800.0  # seconds that the storage may take to answer

    @classmethod
    def join(cls, device: str = "auto", timeout: float = 120.0, patience: float = 1800.0) -> "World":
        """Join the process group that torchrun describes. Without torchrun, create a group of one."""
        rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        if device == "auto":
            enough = torch.cuda.is_available() and torch.cuda.device_count() >= local_size
            device = "cuda" if enough else "cpu"

        if device == "cuda":
            devices = torch.cuda.device_count()
            own = torch.device("cuda", local_rank % max(1, devices))
            torch.cuda.set_device(own)
            # Tensors travel over nccl, small Python objects over gloo. Ranks that share a device cannot use nccl.
            backend = "cpu:gloo,cuda:nccl" if devices >= local_size else "gloo"
        else:
            own, backend = torch.device("cpu"), "gloo"

        cls.init_group(backend, timedelta(seconds=timeout))  # a dead or frozen peer becomes an error after that
        return cls(rank, size, own, timeout, patience)

    @staticmethod
    def init_group(backend: str, limit: timedelta) -> None:
        if "RANK" in os.environ:
            dist.init_process_group(backend, timeout=limit)
        else:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=limit)

    @property
    def leads(self) -> bool:
        """True on rank 0, which prints, decides and publishes."""
        return self.rank == 0

    def micro_batches(self, config: Config) -> int:
        """Count the micro-batches of one optimizer step. With --global-batch, fewer ranks take more of them."""
        if not config.global_batch:
            return config.accumulate
        chunk = config.batch * self.size
        count, rest = divmod(config.global_batch, chunk)
        if rest:
            raise Refused(
                f"--global-batch {config.global_batch} cannot be shared out: {self.size} ranks "
                f"with --batch {config.batch} take {chunk} samples at a time"
            )
        return count

    def agree(self, decision: Any) -> Any:
        """Return the decision of rank 0, on every rank."""
        box = [decision]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def total(self, value: torch.Tensor) -> float:
        """Return the sum over the ranks."""
        value = value.detach().to("cpu", torch.float64)
        dist.all_reduce(value)
        return float(value)

    def any(self, mine: bool) -> bool:
        """Return True if it is true on any rank."""
        return self.total(torch.tensor(float(mine))) > 0

    def gather(self, mine: Any) -> list[Any]:
        """Return the values of all ranks, in the order of the ranks."""
        values = [None] * self.size
        dist.all_gather_object(values, mine)
        return values

    def require_same(self, what: str, mine: Any) -> None:
        """Raise if the ranks hold different values, before the difference does harm."""
        values = self.gather(mine)
        if any(theirs != mine for theirs in values):
            raise RuntimeError(f"the ranks disagree about {what}: {values}")

    def require_same_run(self, about: dict[str, Any]) -> None:
        """Refuse ranks with different options: the launcher of each node has a command line of its own."""
        first, *others = self.gather(about)
        for rank, other in enumerate(others, start=1):
            for name, value in other.items():
                if value != first[name]:
                    difference = f"{name} is {first[name]} on rank 0, {value} on {rank}"
                    raise Refused(f"the ranks were started with different options: {difference}")

    def new_group(self) -> dist.ProcessGroup:
        """Create a second group, for a thread: its messages must not mix with those of the training loop.

        Its timeout covers a slow disk. The group of the training loop notices earlier that a peer is gone.
        """
        return dist.new_group(backend="gloo", timeout=timedelta(seconds=max(self.timeout, self.patience)))

    def say(self, line: str) -> None:
        """Print a line, on rank 0 only."""
        if self.leads:
            print(line, flush=True)

    def run(self, launch: Callable[[], None]) -> int:
        """Run one launch on this rank, leave the group, and return the exit code."""
        code = 0
        try:
            launch()
        except LaunchEnd as end:
            if self.leads:
                end.report()
            code = end.code
        # Not after any other exception: the peers may be gone, and leaving the group in order could hang.
        self.leave()
        return code

    def leave(self) -> None:
        """Destroy the process group. This is the last thing that a rank does.

        DDP keeps the group alive, reference cycles keep DDP alive, and the threads of a living group may still hold
        tensors. A thread that frees a tensor while the interpreter shuts down aborts the process ("terminate called
        without an active exception"), so a good run would end with a bad exit code. So first collect the cycles.
        """
        gc.collect()
        dist.destroy_process_group()
