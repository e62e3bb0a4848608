"""Evaluation on held-out samples, and early stopping.

An evaluation changes nothing that training depends on: it draws no random number, and changes no weight or buffer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from tinymodels.config import Config
from tinymodels.elasticity.world import World
from tinymodels.numbers.precision import autocast
from tinymodels.tokens import Tokens


@dataclass
class Stopping:
    """The outcome of the evaluations so far. It is part of the checkpoint."""

    best: float = math.inf
    bad: int = 0  # evaluations since the best one
    step: int = 0  # of the last evaluation

    def note(self, step: int, loss: float) -> None:
        better = loss < self.best
        self.step, self.bad = step, 0 if better else self.bad + 1
        if better:
            self.best = loss

    def exhausted(self, patience: int) -> bool:
        """Return True if it is time to stop. With a patience of 0 it never is."""
        return 0 < patience <= self.bad


class Evaluation:
    """The held-out samples, shared among the ranks."""

    def __init__(self, held_out: Tokens, config: Config, world: World) -> None:
        self.rows, self.world = held_out.rows, world
        self.chunk = config.batch * world.size  # as in training: every rank has the same number of batches
        self.config = config

    def update(self, stopping: Stopping, step: int, model: nn.Module, interrupted: Callable[[], bool]) -> bool:
        """Evaluate the bare model after a step, and note the loss. Returns False if it was interrupted.

        Call it on all ranks. `model` is the model without DDP around it.
        """
        loss = self.loss(model, interrupted)
        if self.config.parallel == "fsdp":
            model.reshard()  # type: ignore[operator]  # FSDP2 does it in the backward, and here is none
        if loss is None:
            return False
        stopping.note(step, loss)
        self.world.require_same("early stopping", stopping)  # a rank that stops alone leaves the others waiting
        self.world.say(f"evaluated step {step}: loss {loss:.4f}, best {stopping.best:.4f}")
        if stopping.exhausted(self.config.patience):
            self.world.say(f"stopping early: no better loss in {stopping.bad} evaluations")
        return True

    def loss(self, model: nn.Module, interrupted: Callable[[], bool]) -> float | None:
        """Return the mean loss per token over all ranks, or None if `interrupted` says so on all of them."""
        total = torch.zeros((), device=self.world.device)
        model.eval()
        try:
            for at in range(0, len(self.rows), self.chunk):
                if interrupted():
                    return None
                total += self.batch_loss(model, self.rows[at : at + self.chunk])
        finally:
            model.train()
        return self.world.total(total) / (self.rows.numel() - len(self.rows))

    def batch_loss(self, model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        """Return the summed loss of this rank's share of a batch."""
        mine = rows[self.world.rank :: self.world.size].to(self.world.device)
        with torch.no_grad(), autocast(self.config, self.world):
            return model(mine)
