"""nfs-lag: a rank that does not yet see the directory made by rank 0 writes its part into a separate one.

Wrong: nobody looks for the folder before it is made, so who does not see it has another disk. On a
    shared file system another host sees a new name when its cache expires. Its part is written, and nobody complains;
    it is not where the others are, and that checkpoint cannot be resumed from.
Evidence: NVIDIA-NeMo/Speech#8153 p
Codes: stale-checkpoint
Also: restarted-from-scratch crash-loop
Caught by: test_late_names
Equivalent: test_one_rank_mid_epoch (on one host, names are visible at once)
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class BelievesItsEyes(Checkpoints):
    def wait_for_folder(self, temporary):
        self.shared = temporary.exists()

    def begin(self, step):
        temporary = super().begin(step)
        if self.shared:
            return temporary
        own = self.folder / f"rank-{self.world.rank}"
        (own / "sharded").mkdir(parents=True, exist_ok=True)
        return own

    def checksum_files(self, folder):
        return super().checksum_files(folder) if self.shared else {}


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=BelievesItsEyes))
