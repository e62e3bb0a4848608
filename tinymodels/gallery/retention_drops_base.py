"""retention-drops-base: retention keeps the newest checkpoints, and deletes the bases of their deltas.

Wrong: keep the last so many, as always. Since deltas came, a checkpoint is no longer one folder: the full one that they
    all hang on is the oldest, and the first to go. Everything that is kept is worthless, and nothing says so.
Evidence: NovaSky-AI/SkyRL#1902 p, delta-io/delta#6718 c
Codes: crash-loop
Also: checkpoint-lost torn-checkpoint stale-checkpoint
Caught by: test_late test_one_rank_mid_epoch
Args: --delta-every 4 --keep 1 --save-every 7
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class TheLastFew(Checkpoints):
    def kept(self, valid):
        return set(valid[: self.keep])


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=TheLastFew))
