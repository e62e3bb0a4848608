"""no-fsync: the trainer writes under another name and renames, but never calls fsync.

Wrong: a rename is atomic, so nobody will see half a checkpoint; and fsync takes long on this storage. It is atomic for
    whoever looks at it. A power cut may keep the name and lose what it stands for, and the older ones are pruned.
Evidence: tdrussell/diffusion-pipe#159 c
Codes: checkpoint-not-durable
Also: checkpoint-lost torn-checkpoint crash-loop stale-checkpoint restarted-from-scratch
Caught by: crash-states
Equivalent: test_middle_of_save test_between_writes test_right_after_save (written data outlives the process)
Args: --keep 1
Family: publishing and keeping checkpoints
"""

import os

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class InAHurry(Checkpoints):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        os.fsync = lambda handle: None


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=InAHurry))
