"""nfs-lag: a rank that does not see the folder that rank 0 has just made writes its part into one of its own.

Wrong: nobody looks for the folder before it is made, so who does not see it has another disk. On a
    shared file system another host sees a new name when its cache expires. Its part is written, and nobody complains;
    it is not where the others are, and that checkpoint cannot be resumed from.
Evidence: NVIDIA-NeMo/Speech#8153 p
Codes: stale-checkpoint
Also: restarted-from-scratch crash-loop
Caught by: test_late_names
Equivalent: test_one_rank_mid_epoch (one host sees its own names at once)
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoint import Checkpoints
from tinymodels.train import main


class BelievesItsEyes(Checkpoints):
    def look_out(self, temporary):
        self.shared = temporary.exists()

    def begin(self, step):
        temporary = super().begin(step)
        if self.shared:
            return temporary
        own = self.folder / f"rank-{self.world.rank}"
        (own / "sharded").mkdir(parents=True, exist_ok=True)
        return own

    def vouch(self, folder):
        return super().vouch(folder) if self.shared else {}


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=BelievesItsEyes))
