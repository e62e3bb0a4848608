"""nfs-lag: a rank that does not see the folder that rank 0 has just made writes its part into one of its own.

Wrong: there is a barrier between making the folder and looking for it, so who does not see it has another disk. On a
    shared file system another host sees a new name when its cache expires. Its part is written, and nobody complains;
    it is not where the others are, and that checkpoint cannot be resumed from.
Evidence: NVIDIA-NeMo/Speech#8153 p
Codes: stale-checkpoint
Also: restarted-from-scratch crash-loop
Caught by: test_late_names
Equivalent: test_one_rank_mid_epoch (one host sees its own names at once)
Family: publishing and keeping checkpoints
"""

import torch.distributed as dist

from tinymodels.checkpoint import Checkpoints
from tinymodels.train import main


class BelievesItsEyes(Checkpoints):
    def begin(self, step):
        folder = super().begin(step) if self.world.leads else self.folder / f".tmp-{self.path(step).name}"
        dist.barrier(self.aside)
        self.shared = folder.exists()
        return folder

    def write_local(self, state, folder):
        if not self.shared:
            folder = self.folder / f"rank-{self.world.rank}"
            folder.mkdir(exist_ok=True)
        super().write_local(state, folder)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=BelievesItsEyes))
