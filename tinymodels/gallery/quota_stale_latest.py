"""quota-stale-latest: the pointer to the latest checkpoint could not be written, and the resume follows it anyway.

Wrong: the checkpoint itself is there, so a pointer that hits the quota is worth a warning and no more. Nobody looks for
    anything newer than what it says: the job resumes from the checkpoint before, trains again what it has trained, and
    when it has come to that save it finds the place taken and dies; so does each launch after it.
Evidence: AM#3390 p
Codes: crash-loop
Also: stale-checkpoint
Caught by: test_quota_on_pointer
Equivalent: test_one_rank_mid_epoch (the pointer is right)
Family: publishing and keeping checkpoints
"""

import logging

from tinymodels.checkpoints.durable import write_text
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class FollowsThePointer(Checkpoints):
    @property
    def latest(self):
        return self.folder / "latest"

    def publish(self, folder, step):
        if self.path(step).exists():
            raise RuntimeError(f"{self.path(step)} is there already: who else writes here?")
        super().publish(folder, step)
        try:
            write_text(self.latest, self.path(step).name)
        except OSError as problem:
            logging.warning("step %d is saved, and latest still says %s: %s", step, self.latest, problem)

    def newest_valid(self):
        return self.world.agree(self.folder / self.latest.read_text() if self.latest.exists() else None)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=FollowsThePointer))
