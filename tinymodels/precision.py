"""In which numbers the model computes: in float32, or where autocast sees no danger in half as many bits.

float16 (--amp) has small exponents. So the loss is scaled up, and a step whose gradients overflow is left out by the
scaler as a matter of course. bfloat16 (--bf16) has the exponents of float32, and needs none of that.
"""

from typing import Any

import torch

from tinymodels.config import Config
from tinymodels.world import World


def autocast(config: Config, world: World) -> torch.autocast:
    """Around each forward."""
    narrow = torch.bfloat16 if config.bf16 else torch.float16
    return torch.autocast(world.device.type, narrow, enabled=config.amp or config.bf16)


def build_scaler(config: Config, world: World) -> torch.amp.GradScaler:
    """Small numbers, so that the scale moves within a run of sixty steps."""
    return torch.amp.GradScaler(world.device.type, init_scale=2.0**10, growth_interval=16, enabled=config.amp)


def agree_on_overflow(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, world: World) -> None:
    """All ranks, after `unscale_`: an overflow that one has found is everybody's.

    A scaler looks at the gradients that its rank holds. FSDP2's shards make it ask the other ranks; under DDP it does
    not, since all hold the same. Should they not, one rank would leave the step out alone.
    """
    if not scaler.is_enabled():
        return
    found: dict[str, Any] = scaler._found_inf_per_device(optimizer)
    if world.any(any(bool(flag) for flag in found.values())):
        for flag in found.values():
            flag.fill_(1.0)
