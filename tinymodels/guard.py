"""Is a step fit to be taken? Judged by all ranks together: who left a step out alone would be another model after it.

A bad number is a loss that is not finite or out of all proportion (--spike), a gradient norm that is not finite, or a
gradient scale that is none. What happens then is decided in train.py.
"""

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from tinymodels.config import Config
from tinymodels.rollback import Rollback
from tinymodels.world import World

KEPT = 32  # good losses that are remembered,
ENOUGH = 16  # and how many of them it takes to say what is usual


@dataclass
class Memory:
    """What a judgement takes from the steps before. It belongs to the state: a resumed run must judge alike."""

    losses: list[float] = field(default_factory=list)  # the last good ones
    rollbacks: list[Rollback] = field(default_factory=list)  # all that there were

    def note(self, loss: float) -> None:
        self.losses = [*self.losses, loss][-KEPT:]

    def usual(self) -> float:
        """The running median; no loss is unusual while there are too few to tell."""
        return statistics.median(self.losses) if len(self.losses) >= ENOUGH else math.inf

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.losses = list(saved["losses"])
        self.rollbacks = [Rollback.of(each) for each in saved["rollbacks"]]


class Guard:
    """Looks at each step. Every rank has one, and all of them come to the same judgement."""

    def __init__(self, config: Config, world: World) -> None:
        self.config, self.world = config, world

    def __call__(
        self, step: int, loss: float, norm: torch.Tensor, scaler: torch.amp.GradScaler, memory: Memory
    ) -> str | None:
        """All ranks: what is wrong with the step that is about to be taken; None if nothing is.

        Loss and norm should be the same everywhere. Where something is broken they need not be, so
        whoever finds something speaks for all.
        """
        mine = self.problem(step, loss, norm, scaler, memory)
        if not self.world.any(mine is not None):
            return None
        told = self.world.gather(mine)
        ranks = [rank for rank, found in enumerate(told) if found is not None]
        where = "" if len(ranks) == self.world.size else f" on rank {', '.join(map(str, ranks))}"
        return f"{told[ranks[0]]}{where}"

    def problem(
        self, step: int, loss: float, norm: torch.Tensor, scaler: torch.amp.GradScaler, memory: Memory
    ) -> str | None:
        """What this rank finds wrong.

        With --amp a gradient that overflows is a matter of course: the scaler leaves the step out.
        A scale that is no number is none: no step would ever be taken again.
        """
        size, scale = float(norm), scaler.get_scale()  # a scale of 1, without --amp
        if not math.isfinite(loss):
            return f"the loss of step {step} is {loss}"
        if not math.isfinite(size) and not self.config.amp:
            return f"the gradient norm of step {step} is {size}"
        if not 0.0 < scale < math.inf:
            return f"the gradient scale of step {step} is {scale}"
        if self.config.spike and loss > self.config.spike * memory.usual():
            return f"the loss of step {step} is {loss:.4f}, {loss / memory.usual():.1f} times the usual one"
        return None
