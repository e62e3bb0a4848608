"""Rollbacks: back to a checkpoint without a new process, and past the samples that did harm.

OUT/rollbacks.json           all that there were: [{"to": 20, "skipped": [[0, 384, 32]], "rate": 0.5}]

A rollback is written down before anything is undone. So whoever is killed in the middle of one, or resumes from a
checkpoint that knows nothing of it, does not step into the same samples again, nor at the old learning rate.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinymodels.durable import make_folder, write_text
from tinymodels.endings import Refused
from tinymodels.together import together
from tinymodels.world import World

Samples = tuple[int, int, int]  # of one step: epoch, position, how many


@dataclass(frozen=True)
class Rollback:
    """One of them."""

    to: int  # the step that the checkpoint is of; 0: there was none
    skipped: tuple[Samples, ...]
    rate: float  # what the learning rate was multiplied by

    @classmethod
    def of(cls, saved: dict[str, Any]) -> "Rollback":
        """From its plain form."""
        skipped = tuple((epoch, position, samples) for epoch, position, samples in saved["skipped"])
        return cls(int(saved["to"]), skipped, float(saved["rate"]))


class Journal:
    """The rollbacks of a run, on the disk. Rank 0 reads and writes it; all ranks call the same methods."""

    def __init__(self, path: Path, world: World) -> None:
        self.path, self.world = path, world
        self.rollbacks: list[Rollback] = []

    def read(self) -> None:
        """All ranks: what there is. A journal that cannot be read is for a person to look at."""
        found = together(self.world, lambda: self.look() if self.world.leads else None)
        self.rollbacks, problem = self.world.agree(found)
        if problem is not None:
            raise Refused(f"{self.path} cannot be read: {problem}")

    def look(self) -> tuple[list[Rollback], str | None]:
        """Rank 0: what there is, or why that cannot be told."""
        if not self.path.exists():
            return [], None
        try:
            return [Rollback.of(each) for each in json.loads(self.path.read_text())], None
        except (OSError, ValueError, LookupError, TypeError) as problem:
            return [], f"{type(problem).__name__}: {problem}"

    def write(self, rollbacks: Sequence[Rollback]) -> None:
        """All ranks: put all that there were on the disk, for good."""
        self.rollbacks = list(rollbacks)
        lines = ",\n ".join(json.dumps(asdict(each)) for each in rollbacks)
        together(self.world, lambda: self.put(f"[{lines}]\n") if self.world.leads else None)

    def put(self, text: str) -> None:
        make_folder(self.path.parent)
        write_text(self.path, text)


def places(rollbacks: Sequence[Rollback]) -> frozenset[tuple[int, int]]:
    """Epoch and position of all steps whose samples are skipped."""
    return frozenset((epoch, position) for each in rollbacks for epoch, position, _ in each.skipped)


def rate_after(rollbacks: Sequence[Rollback]) -> float:
    """What is left of the learning rate after all of them."""
    return math.prod(each.rate for each in rollbacks)
