"""rank0-only-load: only rank 0 loads the tensors, because DDP broadcasts them to the other ranks.

Wrong: DDP does so once, when it is built, and that was before the load; of the optimizer and the average it knows
    nothing at all. The others train on from new weights and hand their gradients to rank 0.
Evidence: intelligent-machine-learning/dlrover#770 c
Codes: model-not-restored optimizer-not-restored
Also: ema-not-restored lr-schedule-off buffers-not-restored ranks-diverged
Caught by: test_one_rank_mid_epoch test_resume
Family: elasticity and restarts
"""

import torch.distributed as dist

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class LeaderOnly(State):
    def restore_sharded(self, saved):
        if dist.get_rank() == 0:
            super().restore_sharded(saved)


if __name__ == "__main__":
    raise SystemExit(main(state=LeaderOnly))
