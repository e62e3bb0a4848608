"""Look at every tensor of the state: is it finite, and is it the same on all ranks?

A value that is not finite never becomes finite again. A checkpoint that holds one is worse than no checkpoint: it is
the newest, and the next launch resumes from it. And nothing else compares the replicas: DDP averages the gradients,
but a weight that differs on one rank stays different.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

import torch
from torch.distributed.tensor import DTensor

from tinymodels.checkpoints.state import State
from tinymodels.elasticity.world import World

SHOWN = 3  # names in a message


def named_tensors(state: State) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield this rank's tensors and numbers of model, optimizer, average and scaler. Of shards, the local part.

    It reads the live objects. Asking an optimizer for its state dict may make it take a step of its own.
    """
    for name, value in state.model.state_dict().items():
        yield f"model {unwrapped(name)}", local(value)
    for name, weight in state.model.named_parameters():
        for key, value in state.optimizer.state.get(weight, {}).items():
            yield f"optimizer {unwrapped(name)}.{key}", local(value)
    for i, group in enumerate(state.optimizer.param_groups):
        yield f"optimizer rate {i}", local(group["lr"])
    for name, value in state.average.state_dict().items():
        yield f"average {unwrapped(name)}", local(value)
    for name, value in state.scaler.state_dict().items():
        yield f"scaler {name}", local(value)


def unwrapped(name: str) -> str:
    """Return the name without DDP's prefix."""
    return name.removeprefix("module.")


def local(value: object) -> torch.Tensor:
    """Return this rank's part of a tensor; a plain number becomes a tensor."""
    if isinstance(value, DTensor):
        return value.to_local().detach()
    return value.detach() if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)


def not_finite(state: State, world: World) -> str | None:
    """Return what is not finite and on which ranks, or None. Call it on all ranks."""
    mine = [name for name, value in named_tensors(state) if not bool(value.isfinite().all())]
    if not world.any(bool(mine)):
        return None
    return "; ".join(f"rank {rank}: {shortened(names)}" for rank, names in enumerate(world.gather(mine)) if names)


def differing(state: State, world: World) -> str | None:
    """Return which replicas differ from the others and in which tensors, or None. Call it on all ranks."""
    mine = {name: digest(value) for name, value in named_tensors(state)}
    digests = world.gather(blake2b(repr(sorted(mine.items())).encode()).hexdigest())
    if len(set(digests)) == 1:
        return None
    everyone = world.gather(mine)
    names = [name for name in mine if len({theirs.get(name) for theirs in everyone}) > 1]
    return f"{minority(digests)} in {shortened(names)}"


def minority(digests: list[str]) -> str:
    """Say which ranks differ from most of the others. Without a majority, name all ranks."""
    usual, times = Counter(digests).most_common(1)[0]
    if 2 * times <= len(digests):
        return f"ranks {', '.join(map(str, range(len(digests))))} differ"
    odd = [str(rank) for rank, each in enumerate(digests) if each != usual]
    return f"rank {odd[0]} differs" if len(odd) == 1 else f"ranks {', '.join(odd)} differ"


def digest(value: torch.Tensor) -> bytes:
    """Return a digest of the bits: two not-a-numbers with the same bits are equal, and 0 and -0 are not."""
    return blake2b(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data, digest_size=16).digest()


def shortened(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
