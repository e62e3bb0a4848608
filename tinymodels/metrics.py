"""The metrics of a run: one line a step, each step once, however often the run was interrupted.

OUT/metrics.jsonl holds {"step": 12, "loss": "0x1.9p+1", "lr": 0.003}, the loss to the last bit.
"""

import json
from pathlib import Path

from tinymodels.durable import write_text
from tinymodels.world import World


class Metrics:
    """Written by rank 0; the others may call the same methods."""

    def __init__(self, path: Path, world: World) -> None:
        self.path, self.world = path, world

    def rewind(self, step: int) -> None:
        """Before training goes on after a step: cut off what the launch before wrote past it."""
        if not self.world.leads:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            lines = self.path.read_text().splitlines(keepends=True)
            write_text(self.path, "".join(line for line in lines if is_kept(line, step)))

    def log(self, step: int, loss: float, rate: float) -> None:
        if not self.world.leads:
            return
        with self.path.open("a") as file:
            file.write(json.dumps({"step": step, "loss": loss.hex(), "lr": rate}) + "\n")


def is_kept(line: str, step: int) -> bool:
    """A whole line of a step that was not undone. Of the last one a crash may have left a part."""
    return line.endswith("}\n") and json.loads(line)["step"] <= step
