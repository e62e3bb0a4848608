"""What moves the weights: AdamW, its learning rate over time, and the average of where it was."""

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

from tinymodels.config import Config


def build_optimizer(model: nn.Module, config: Config) -> torch.optim.AdamW:
    """AdamW. Matrices decay; biases, norms and other vectors must not."""

    def group(weights: Iterable[nn.Parameter], decay: float) -> dict[str, object]:
        return {"params": list(weights), "weight_decay": decay}

    weights = [p for p in model.parameters() if p.requires_grad]
    matrices = group((p for p in weights if p.dim() >= 2), config.weight_decay)
    vectors = group((p for p in weights if p.dim() < 2), 0.0)
    return torch.optim.AdamW([matrices, vectors], lr=config.lr, betas=(0.9, 0.95))


def factor(step: int, *, warmup: int, steps: int, floor: float = 0.1) -> float:
    """The share of the peak rate at a step: up a line, down half a cosine, to a tenth."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * done))


def build_scheduler(optimizer: torch.optim.Optimizer, config: Config, steps: int) -> LambdaLR:
    """Build it before the optimizer's state is restored: building one rewrites the rates."""
    return LambdaLR(optimizer, lambda step: factor(step, warmup=config.warmup, steps=steps))


def set_peak(scheduler: LambdaLR, rate: float) -> None:
    """Another peak rate, in the middle of the schedule and from the next step on."""
    scheduler.base_lrs = [rate] * len(scheduler.base_lrs)
    rates = [rate * share(scheduler.last_epoch) for share in scheduler.lr_lambdas]
    for group, now in zip(scheduler.optimizer.param_groups, rates, strict=True):
        group["lr"] = now
    scheduler._last_lr = rates


def build_average(model: nn.Module, config: Config) -> AveragedModel:
    """A moving average of the weights. Copy first, shard afterwards: FSDP2 can't be copied.

    Weight by weight (`avg_fn`), not in bulk: so it works on plain tensors and shards alike, since
    the average of a shard is the shard of the average.
    """
    return AveragedModel(model, avg_fn=get_ema_avg_fn(config.ema_decay))
