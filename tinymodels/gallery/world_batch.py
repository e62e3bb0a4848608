"""world-batch: the number of micro-batches per step is computed once, and stored in the checkpoint.

Wrong: it is a choice of the run like any other, and as long as the ranks are as many it is right. With half of them
    each step has half of the samples: more steps an epoch than the schedule knows of, and noisier ones.
Evidence: HF#22580 o
Codes: global-batch-changed
Also: lr-schedule-off loss-diverged data-replayed data-skipped data-reordered exited-early extra-state-not-restored
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.train import Data, main


class WorkedOutOnce(Data):
    def state_dict(self):
        return super().state_dict() | {"accumulate": self.stride // self.chunk}

    def load_state_dict(self, saved):
        super().load_state_dict(saved)
        self.stride = self.chunk * saved["accumulate"]


if __name__ == "__main__":
    raise SystemExit(main(data=WorkedOutOnce))
