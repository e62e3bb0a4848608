"""The guard looks at each step before the update. All ranks come to the same judgement, so no rank skips a step alone.

A bad number is a loss that is not finite or much larger than usual (--spike), a gradient norm that is not finite, or a
gradient scale that is not a positive finite number. numbers/checks.py decides what happens then.
"""

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from tinymodels.config import Config
from tinymodels.elasticity.world import World
from tinymodels.numbers.rollback import Rollback

KEPT = 32  # good losses in the memory
ENOUGH = 16  # losses that are needed to say what is usual


@dataclass
class Memory:
    """What a judgement takes from earlier steps. It is part of the checkpoint: a resumed run must judge alike."""

    losses: list[float] = field(default_factory=list)  # the last good ones
    rollbacks: list[Rollback] = field(default_factory=list)  # all of the run

    def note(self, loss: float) -> None:
        self.losses = [*self.losses, loss][-KEPT:]

    def usual(self) -> float:
        """Return the running median. While there are too few losses it is infinite, and no loss is a spike."""
        return statistics.median(self.losses) if len(self.losses) >= ENOUGH else math.inf

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.losses = list(saved["losses"])
        self.rollbacks = [Rollback.of(each) for each in saved["rollbacks"]]


class Guard:
    """Judges each step. Every rank has one."""

    def __init__(self, config: Config, world: World) -> None:
        self.config, self.world = config, world

    def __call__(
        self, step: int, loss: float, norm: torch.Tensor, scaler: torch.amp.GradScaler, memory: Memory
    ) -> str | None:
        """Return what is wrong with the step, or None. Call it on all ranks.

        Loss and norm should be the same on all ranks. If something is broken they may differ, so a problem that one
        rank finds counts for all ranks.
        """
        mine = self.problem(step, loss, norm, scaler, memory)
        if not self.world.any(mine is not None):
            return None
        problems = self.world.gather(mine)
        ranks = [rank for rank, problem in enumerate(problems) if problem is not None]
        where = "" if len(ranks) == self.world.size else f" on rank {', '.join(map(str, ranks))}"
        return f"{problems[ranks[0]]}{where}"

    def problem(
        self, step: int, loss: float, norm: torch.Tensor, scaler: torch.amp.GradScaler, memory: Memory
    ) -> str | None:
        """Return what is wrong on this rank.

        With --amp, gradients may overflow now and then: the scaler leaves such a step out. But if the scale itself is
        not a number, no step would ever be taken again.
        """
        size, scale = float(norm), scaler.get_scale()  # the scale is 1 without --amp
        if not math.isfinite(loss):
            return f"the loss of step {step} is {loss}"
        if not math.isfinite(size) and not self.config.amp:
            return f"the gradient norm of step {step} is {size}"
        if not 0.0 < scale < math.inf:
            return f"the gradient scale of step {step} is {scale}"
        if self.config.spike and loss > self.config.spike * memory.usual():
            return f"the loss of step {step} is {loss:.4f}, {loss / memory.usual():.1f} times the usual one"
        return None
