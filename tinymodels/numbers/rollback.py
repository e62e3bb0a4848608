"""A rollback returns to the last checkpoint within the same process, and skips the samples of the bad steps.

OUT/rollbacks.json           all rollbacks of the run: [{"to": 20, "skipped": [[0, 384, 32]], "rate": 0.5}]

A rollback is on the disk before anything is undone. So a launch that is killed in the middle of one, or that resumes
from a checkpoint that knows nothing of it, does not train on the same samples again, nor at the old learning rate.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinymodels.checkpoints.durable import make_folder, write_text
from tinymodels.elasticity.collective_io import on_all_ranks
from tinymodels.elasticity.world import World
from tinymodels.preemption.exits import Refused

Samples = tuple[int, int, int]  # of one step: epoch, position, how many


@dataclass(frozen=True)
class Rollback:
    to: int  # the step of the checkpoint; 0 if there was none
    skipped: tuple[Samples, ...]
    rate: float  # the learning rate was multiplied by this

    @classmethod
    def of(cls, saved: dict[str, Any]) -> "Rollback":
        """Read one from plain JSON."""
        skipped = tuple((epoch, position, samples) for epoch, position, samples in saved["skipped"])
        return cls(int(saved["to"]), skipped, float(saved["rate"]))


class RollbackLog:
    """The rollbacks of the run, on the disk. Call its methods on all ranks; rank 0 reads and writes the file."""

    def __init__(self, path: Path, world: World) -> None:
        self.path, self.world = path, world
        self.rollbacks: list[Rollback] = []

    def read(self) -> None:
        found = on_all_ranks(self.world, lambda: self.read_file() if self.world.leads else None)
        self.rollbacks, problem = self.world.agree(found)
        if problem is not None:
            raise Refused(f"{self.path} cannot be read: {problem}")

    def read_file(self) -> tuple[list[Rollback], str | None]:
        """Return the rollbacks in the file, or the reason why it cannot be read."""
        if not self.path.exists():
            return [], None
        try:
            return [Rollback.of(each) for each in json.loads(self.path.read_text())], None
        except (OSError, ValueError, LookupError, TypeError) as problem:
            return [], f"{type(problem).__name__}: {problem}"

    def write(self, rollbacks: Sequence[Rollback]) -> None:
        self.rollbacks = list(rollbacks)
        lines = ",\n ".join(json.dumps(asdict(each)) for each in rollbacks)
        on_all_ranks(self.world, lambda: self.write_file(f"[{lines}]\n") if self.world.leads else None)

    def write_file(self, text: str) -> None:
        make_folder(self.path.parent)
        write_text(self.path, text)


def skipped_steps(rollbacks: Sequence[Rollback]) -> frozenset[tuple[int, int]]:
    """Return epoch and position of all steps whose samples are skipped."""
    return frozenset((epoch, position) for each in rollbacks for epoch, position, _ in each.skipped)


def rate_factor(rollbacks: Sequence[Rollback]) -> float:
    """Return what the learning rate is multiplied by after these rollbacks."""
    return math.prod(each.rate for each in rollbacks)
