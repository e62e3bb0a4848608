"""delete-before-save: the trainer deletes the only checkpoint before it writes the next one.

Wrong: the disk has room for one, so the old one goes first. From then until the new one is published there is none: a
    crash in the save, or a save that fails, leaves the job without any.
Evidence: PL#1150 c, ST#2989 m
Codes: checkpoint-lost crash-loop
Caught by: test_middle_of_save test_between_writes
Args: --keep 1
Family: publishing and keeping checkpoints
"""

import shutil

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class MakesRoom(Checkpoints):
    def begin(self, step):
        if self.world.leads:
            for path in self.newest_first()[self.keep - 1 :]:
                shutil.rmtree(path)
        return super().begin(step)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=MakesRoom))
