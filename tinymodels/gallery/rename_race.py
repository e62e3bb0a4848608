"""rename-race: every rank publishes the checkpoint, and first removes an existing one.

Wrong: who comes first renames, the others find nothing left to rename and go on. Where a checkpoint of that step was
    there before, and was refused, the second one to come clears away what the first one has just published.
Evidence: HF#28015 c, HF#28364 m, HF#36076 c
Codes: checkpoint-lost
Also: stale-checkpoint
Caught by: test_retention_after_damage
Equivalent: test_one_rank_mid_epoch (there is no existing checkpoint)
Family: publishing and keeping checkpoints
"""

import os
import shutil
from contextlib import suppress

import torch.distributed as dist

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class AllAtOnce(Checkpoints):
    def finish(self, folder, step):
        again = self.path(step).exists()
        dist.barrier(self.group)
        super().finish(folder, step)
        dist.barrier(self.group)
        if not self.world.leads:
            if again:
                shutil.rmtree(self.path(step))
            with suppress(FileNotFoundError):
                os.rename(folder, self.path(step))


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=AllAtOnce))
