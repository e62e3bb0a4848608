"""debris-grows: each save attempt has a separate directory, and only a successful save removes its own.

Wrong: a name that never comes again cannot collide with anything, so nobody has to clear it away first. What a crash in
    a save leaves stays for ever, as large as a checkpoint; after enough of them the disk is full, and saves fail.
Evidence: ai2cm/ace#1167 m, ray-project/ray#44366 m
Codes: debris-left
Also: disk-use-grows
Caught by: test_interrupted_saves
Family: publishing and keeping checkpoints
"""

import time

from tinymodels.checkpoints.durable import wait_for
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class NeverTheSame(Checkpoints):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.launch = self.world.agree(time.time_ns())

    def begin(self, step):
        folder = self.folder / f".tmp-{self.launch}-{self.path(step).name}"
        if self.world.leads:
            (folder / "sharded").mkdir(parents=True)
        wait_for([folder / "sharded"], self.LATE)
        return folder

    def sweep(self):
        pass


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=NeverTheSame))
