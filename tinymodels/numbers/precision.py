"""Mixed precision: the model computes in float32, or with autocast in half as many bits where that is safe.

float16 (--amp) has a small range. So the loss is scaled up, and the scaler leaves out a step whose gradients overflow.
bfloat16 (--bf16) has the range of float32 and needs no scaler.
"""

from typing import Any

import torch

from tinymodels.config import Config
from tinymodels.elasticity.world import World


def autocast(config: Config, world: World) -> torch.autocast:
    """Return the context for each forward."""
    narrow = torch.bfloat16 if config.bf16 else torch.float16
    return torch.autocast(world.device.type, narrow, enabled=config.amp or config.bf16)


def build_scaler(config: Config, world: World) -> torch.amp.GradScaler:
    """Build a gradient scaler. Its values are small, so that the scale changes within a run of sixty steps."""
    return torch.amp.GradScaler(world.device.type, init_scale=2.0**10, growth_interval=16, enabled=config.amp)


def agree_on_overflow(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, world: World) -> None:
    """Tell all ranks of an overflow that one rank has found. Call it after `unscale_`.

    A scaler looks at the gradients of its own rank. With FSDP2 it asks the other ranks. With DDP it does not, because
    all ranks should hold the same gradients. If they do not, one rank would leave the step out alone.
    """
    if not scaler.is_enabled():
        return
    found: dict[str, Any] = scaler._found_inf_per_device(optimizer)
    if world.any(any(bool(flag) for flag in found.values())):
        for flag in found.values():
            flag.fill_(1.0)
