"""stale-rank-pointers: each rank has a separate pointer to the latest checkpoint, which outlives the rank.

Wrong: every rank writes down what it has saved, and looks there when it comes back. A rank that was away finds what was
    the latest when it left: by now it is pruned, or older than what the others resume from.
Evidence: mosaicml/composer#2409 m
Codes: crash-loop
Also: hang
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.checkpoints.durable import write_text
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class PointerEach(Checkpoints):
    @property
    def latest(self):
        return self.folder / f"latest-rank-{self.world.rank}"

    def finish(self, folder, step):
        super().finish(folder, step)
        write_text(self.latest, self.path(step).name)

    def newest_valid(self):
        chosen = super().newest_valid()
        if self.latest.exists():  # a new rank has none
            chosen = self.folder / self.latest.read_text()
        self.world.require_same("the latest checkpoint", chosen)
        return chosen


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=PointerEach))
