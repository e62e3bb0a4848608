"""lr-times-world: the learning rate scales with the number of ranks.

Wrong: more ranks are a larger batch, and a larger batch wants a higher rate. Here it is none: fewer ranks take more
    micro-batches each, the batch is what it was, and half of the ranks learn at half the rate.
Evidence: sql-machine-learning/elasticdl#2299 p, mala-project/mala#374 c
Codes: lr-schedule-off
Also: loss-diverged
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import Trainer, main


class Scaled(State):
    ranks = 1

    def save_scheduler(self):
        return super().save_scheduler() | {"ranks": self.ranks}

    def restore_scheduler(self, saved):
        scale = self.ranks / saved.pop("ranks")
        saved["base_lrs"] = [rate * scale for rate in saved["base_lrs"]]
        super().restore_scheduler(saved)
        for group in self.optimizer.param_groups:
            group["lr"] *= scale


class Scaling(Trainer):
    def build(self):
        state = super().build()
        state.ranks = self.world.size
        return state


if __name__ == "__main__":
    raise SystemExit(main(trainer=Scaling, state=Scaled))
