"""newest-by-clock: the newest checkpoint is the one with the latest date.

Wrong: each checkpoint has the date at which it was saved, by the clock of the machine of rank 0. That is right as long
    as the clock never goes back. Once it is set back, all saves have earlier dates than those before, and the job
    resumes from before the jump, without a word, until the clock has caught up.
Evidence: NVIDIA-NeMo/Speech#52 m, HF#26961 c, metatensor/metatrain#720 c
Codes: stale-checkpoint
Caught by: test_clocks_set_back
Args: --keep 99
Family: publishing and keeping checkpoints
"""

import time

from tinymodels.checkpoints import manifest
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class ByClock(Checkpoints):
    def describe(self, folder, step):
        self.notes["saved_at"] = time.time()
        super().describe(folder, step)

    def newest_first(self):
        return sorted(super().newest_first(), key=saved_at, reverse=True)


def saved_at(path):
    try:
        return manifest.read(path)["notes"]["saved_at"]
    except manifest.Invalid:
        return 0.0


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=ByClock))
