"""world-skip: the position is saved in batches, and a resume skips that many batches of any size.

Wrong: a batch is what all ranks take at a time. With half of the ranks it is half as large: as many batches are half as
    many samples, and those between come again. Where ranks are added, samples are left out.
Evidence: HF#40245 c
Codes: data-replayed
Also: global-batch-changed data-skipped data-reordered exited-early loss-diverged extra-state-not-restored
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.train import Data, Group, main


class CountsBatches(Data):
    def state_dict(self):
        return {"epoch": self.epoch, "batches": self.position // self.chunk}

    def load_state_dict(self, saved):
        self.epoch, self.position = saved["epoch"], saved["batches"] * self.chunk
        self.used(Group([], 0))  # an epoch that has no more than that is over


if __name__ == "__main__":
    raise SystemExit(main(data=CountsBatches))
