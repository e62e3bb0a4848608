"""How the ranks share a model: each has all of it (DDP), or each has a part (FSDP2)."""

from torch import nn

from tinymodels.config import Config
from tinymodels.world import World


def distribute(bare: nn.Module, average: nn.Module, config: Config, world: World) -> nn.Module:
    """Replicate the model, or shard it and its average alike."""
    if config.parallel == "fsdp":
        return shard(bare, average, world)

    from torch.nn.parallel import DistributedDataParallel

    # After its first backward DDP regroups its buckets, in the order in which gradients came.
    # Among three ranks or more, a gradient's place in its bucket decides in which order it is
    # summed: a run that resumes at step 40 would sum that step in other groups than the run
    # that never stopped, and differ in the last bit. DDP leaves the buckets alone when it has
    # to look for unused parameters, so let it look. (Two ranks: a + b is b + a.)
    return DistributedDataParallel(bare, find_unused_parameters=world.size > 2)


def shard(bare: nn.Module, average: nn.Module, world: World) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(world.device.type, (world.size,))
    for whole in (bare, average):
        for block in whole.blocks:  # type: ignore[union-attr]
            fully_shard(block, mesh=mesh)
        fully_shard(whole, mesh=mesh)
    return bare
