"""replica-unverified: the trainer copies a replica file by file in place, and assumes that it is complete.

Wrong: nobody reads the second store as long as the first is there, so there is no hurry to make a copy appear at once.
    The day on which it is needed is the day of a crash, and the newest copy is the one that was being made.
Evidence: axolotl-ai-cloud/axolotl#3948 m, libsql/sqld#721 o
Codes: torn-checkpoint
Also: crash-loop corrupt-accepted
Caught by: test_misleading[damage_manifest]
Equivalent: test_none_is_whole (it may fail until the files are restored)
Args: --replica {out}/copies --step-delay 0.1
Family: corruption and loading
"""

import shutil
import time

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.checkpoints.manifest import read, step_of
from tinymodels.checkpoints.replica import Replica
from tinymodels.train import main


class InPlace(Replica):
    def copy(self, path, store):
        for file in [file for file in sorted(path.rglob("*")) if file.is_file()]:
            copy = store.path(step_of(path)) / file.relative_to(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
            time.sleep(0.1)  # a thin line

    def newest(self, after):
        newest = next((path for path in self.store.newest_first() if step_of(path) > after), None)
        return newest and (newest, read(newest))


class Copied(Checkpoints):
    def open_replica(self, folder):
        return InPlace(super().open_replica(folder).store, self.world.say)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=Copied))
