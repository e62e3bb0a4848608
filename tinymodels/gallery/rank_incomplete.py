"""rank-incomplete: a checkpoint counts as complete once rank 0 has published it; the ranks' parts are elsewhere.

Wrong: each rank keeps its part on its own disk, in one file, since that is the latest and nobody else reads it. A crash
    before rank 0 has published, or a fall back to an older checkpoint, and the parts are of another step than the rest.
Evidence: ray-project/ray#41700 o, intelligent-machine-learning/dlrover#972 m
Codes: corrupt-accepted rng-not-restored
Caught by: test_right_after_save test_flipped_bit
Equivalent: test_one_rank_mid_epoch (the newest checkpoint and the parts agree)
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class PartsElsewhere(Checkpoints):
    def rank_file(self, folder, rank):
        return super().rank_file(self.folder, rank)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=PartsElsewhere))
