"""delta-base-unchecked: the trainer verifies a delta checkpoint, but not the checkpoint that it builds on.

Wrong: every checkpoint was verified when it was new, and a manifest lists its own files. That an older one has gone bad
    since is found out in the middle of a resume, and in each one after that: nothing falls back to a full one.
Evidence: firedancer-io/firedancer#1935 c, milvus-io/milvus#53666 o
Codes: torn-checkpoint
Also: crash-loop corrupt-accepted
Caught by: test_older_damaged[truncate] test_older_damaged[delete_whole]
Equivalent: test_flipped_bit (the newest checkpoint is verified)
Args: --delta-every 4
Family: corruption and loading
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class LooksAtTheTip(Checkpoints):
    def validate_chain(self, path):
        pass


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=LooksAtTheTip))
