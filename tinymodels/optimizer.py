"""AdamW, the schedule of its learning rate, and a moving average of the weights."""

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

from tinymodels.config import Config


def build_optimizer(model: nn.Module, config: Config) -> torch.optim.AdamW:
    """Build AdamW. Matrices get weight decay; biases, norms and other vectors do not."""

    def group(weights: Iterable[nn.Parameter], decay: float) -> dict[str, object]:
        return {"params": list(weights), "weight_decay": decay}

    weights = [p for p in model.parameters() if p.requires_grad]
    matrices = group((p for p in weights if p.dim() >= 2), config.weight_decay)
    vectors = group((p for p in weights if p.dim() < 2), 0.0)
    return torch.optim.AdamW([matrices, vectors], lr=config.lr, betas=(0.9, 0.95))


def factor(step: int, *, warmup: int, steps: int, floor: float = 0.1) -> float:
    """Return the share of the peak rate at a step: linear warm-up, then half a cosine down to a tenth."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * done))


def build_scheduler(optimizer: torch.optim.Optimizer, config: Config, steps: int) -> LambdaLR:
    """Build the schedule. Do it before the optimizer is restored, because it overwrites the learning rates."""
    return LambdaLR(optimizer, lambda step: factor(step, warmup=config.warmup, steps=steps))


def set_peak(scheduler: LambdaLR, rate: float) -> None:
    """Set another peak rate in the middle of the schedule, from the next step on."""
    scheduler.base_lrs = [rate] * len(scheduler.base_lrs)
    rates = [rate * share(scheduler.last_epoch) for share in scheduler.lr_lambdas]
    for group, now in zip(scheduler.optimizer.param_groups, rates, strict=True):
        group["lr"] = now
    scheduler._last_lr = rates


def build_average(model: nn.Module, config: Config) -> AveragedModel:
    """Build the moving average. It copies the model, so do it before sharding: FSDP2 models cannot be copied.

    It averages weight by weight (`avg_fn`), so it works on plain tensors and on shards alike.
    """
    return AveragedModel(model, avg_fn=get_ema_avg_fn(config.ema_decay))
