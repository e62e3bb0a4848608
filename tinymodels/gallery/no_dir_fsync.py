"""no-dir-fsync: the trainer calls fsync on every file, but not on the directories, so the names are not forced.

Wrong: the data is safe, so the checkpoint is. But names live in folders, and until those are on the disk a power cut
    takes the newest checkpoint back; and where the marker of the run came through, it says that all are lost.
Evidence: getnora-io/nora#723 m, NodeDB-Lab/nodedb#78 c
Codes: checkpoint-not-durable
Also: checkpoint-lost torn-checkpoint crash-loop stale-checkpoint restarted-from-scratch
Caught by: crash-states
Equivalent: test_middle_of_save test_between_writes test_right_after_save (written data outlives the process)
Args: --keep 1
Family: publishing and keeping checkpoints
"""

import os
import stat

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class FilesOnly(Checkpoints):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        fsync = os.fsync
        os.fsync = lambda handle: None if stat.S_ISDIR(os.fstat(handle).st_mode) else fsync(handle)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=FilesOnly))
