"""Evaluation on samples that are never trained on, and when to stop since it gets no better.

It moves nothing that training depends on: no random number is drawn, no weight or buffer changes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from tinymodels.config import Config
from tinymodels.data import Tokens
from tinymodels.endings import Refused
from tinymodels.precision import autocast
from tinymodels.world import World

HELD_OUT = 64  # samples


@dataclass
class Stopping:
    """What the evaluations so far have come to. It belongs to the state: a resume must not forget."""

    best: float = math.inf
    bad: int = 0  # evaluations since the best one
    step: int = 0  # of the last evaluation

    def note(self, step: int, loss: float) -> None:
        better = loss < self.best
        self.step, self.bad = step, 0 if better else self.bad + 1
        if better:
            self.best = loss

    def exhausted(self, patience: int) -> bool:
        """Is it time to stop? Never, with a patience of 0."""
        return 0 < patience <= self.bad


class Evaluation:
    """The held-out samples, shared out among the ranks."""

    def __init__(self, held_out: Tokens, config: Config, world: World) -> None:
        self.rows, self.world = held_out.rows, world
        self.chunk = config.batch * world.size  # as in training: every rank has as many batches
        self.config = config

    def loss(self, model: nn.Module, interrupted: Callable[[], bool]) -> float | None:
        """All ranks: the mean loss a token; None if it was interrupted, on which all ranks agree."""
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
        """The sum over this rank's share of a batch."""
        mine = rows[self.world.rank :: self.world.size].to(self.world.device)
        with torch.no_grad(), autocast(self.config, self.world):
            return model(mine)


def load_tokens(config: Config) -> tuple[Tokens, Tokens]:
    """What to train on, and what to evaluate on."""
    try:
        if config.text is None:
            tokens = Tokens.language(config.samples, config.context, config.seed)
        else:
            tokens = Tokens.text(config.text, config.context)
        return hold_out(tokens, config)
    except ValueError as problem:
        raise Refused(str(problem)) from None


def hold_out(tokens: Tokens, config: Config) -> tuple[Tokens, Tokens]:
    """What to train on and what to evaluate on (nothing, if there are no evaluations).

    The synthetic language has more to say, so nothing is taken from training. A text is what it
    is: its end is held out, a tenth of it at most.
    """
    if not config.evaluate_every:
        return tokens.cut(len(tokens))
    if config.text is None:
        return tokens, Tokens.language(HELD_OUT, config.context, config.seed, unheard=True)
    if len(tokens) < 2:
        raise ValueError(f"{config.text} is too short to hold a part of it out")
    return tokens.cut(len(tokens) - max(1, min(HELD_OUT, len(tokens) // 10)))
