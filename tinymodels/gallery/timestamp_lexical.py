"""timestamp-lexical: the newest checkpoint is the last one in text order, and the numbers have no leading zeros.

Wrong: names are sorted as they come, and it works as long as all numbers have as many digits. As text, 9 comes after
    30: the job resumes from step 9, without a word, and trains again what it has trained.
Evidence: fw-ai/cookbook#402 m
Codes: stale-checkpoint
Caught by: test_one_rank_mid_epoch test_late
Args: --save-every 3 --keep 99
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class AsText(Checkpoints):
    def path(self, step):
        return self.folder / f"step-{step}"

    def newest_first(self):
        return sorted(self.folder.glob("step-*"), reverse=True)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=AsText))
