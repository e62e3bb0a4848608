"""What a rank holds of a run, name by name, and whether it may be published or trained on.

A value that is not finite never goes away again. A checkpoint that holds one is worse than none: it is the newest, and
the launch that comes after resumes from it.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

import torch
from torch.distributed.tensor import DTensor

from tinymodels.state import State
from tinymodels.world import World

SHOWN = 3  # names in a message


def held(state: State) -> Iterator[tuple[str, torch.Tensor]]:
    """This rank's tensors and numbers of model, optimizer, average and scaler: its own parts, where it has but parts.

    They are taken from where they live. Asking for an optimizer's state dict may make it take a phantom step.
    """
    for name, value in state.model.state_dict().items():
        yield f"model {bare(name)}", local(value)
    for name, weight in state.model.named_parameters():
        for key, value in state.optimizer.state.get(weight, {}).items():
            yield f"optimizer {bare(name)}.{key}", local(value)
    for i, group in enumerate(state.optimizer.param_groups):
        yield f"optimizer rate {i}", local(group["lr"])
    for name, value in state.average.state_dict().items():
        yield f"average {bare(name)}", local(value)
    for name, value in state.scaler.state_dict().items():
        yield f"scaler {name}", local(value)


def bare(name: str) -> str:
    """Without what wraps the model."""
    return name.removeprefix("module.")


def local(value: object) -> torch.Tensor:
    """A number is a tensor too."""
    if isinstance(value, DTensor):
        return value.to_local().detach()
    return value.detach() if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)


def not_finite(state: State, world: World) -> str | None:
    """All ranks: what is not finite, and on which of them; None if everything is."""
    mine = [name for name, value in held(state) if not bool(value.isfinite().all())]
    if not world.any(bool(mine)):
        return None
    return "; ".join(f"rank {rank}: {listed(names)}" for rank, names in enumerate(world.gather(mine)) if names)


def differing(state: State, world: World) -> str | None:
    """All ranks, each with a whole replica: which differ from the rest, and in what; None if none does.

    Nothing else will ever notice: gradients are averaged among replicas, differences are not.
    """
    mine = {name: digest(value) for name, value in held(state)}
    told = world.gather(blake2b(repr(sorted(mine.items())).encode()).hexdigest())
    if len(set(told)) == 1:
        return None
    everyone = world.gather(mine)
    names = [name for name in mine if len({theirs.get(name) for theirs in everyone}) > 1]
    return f"{minority(told)} in {listed(names)}"


def minority(told: list[str]) -> str:
    """Who differs from most of the others. Of two, who can say which one is right?"""
    usual, times = Counter(told).most_common(1)[0]
    if 2 * times <= len(told):
        return f"ranks {', '.join(map(str, range(len(told))))} differ"
    odd = [str(rank) for rank, each in enumerate(told) if each != usual]
    return f"rank {odd[0]} differs" if len(odd) == 1 else f"ranks {', '.join(odd)} differ"


def digest(value: torch.Tensor) -> bytes:
    """Of its bits: equal ones are the same number, unequal ones are not, and not-a-number is itself."""
    return blake2b(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data, digest_size=16).digest()


def listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
