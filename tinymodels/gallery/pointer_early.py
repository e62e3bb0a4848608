"""pointer-early: the pointer to the latest checkpoint moves at the begin of an asynchronous save, not at its end.

Wrong: `async_save` returns at once, so the checkpoint counts as made: `latest` names it and the older ones are pruned,
    while its tensors are still to be written. A crash before that leaves a pointer to a torn checkpoint, and the older
    one only if it was not pruned yet.
Evidence: KF#102 c
Codes: crash-loop
Also: checkpoint-lost torn-checkpoint
Caught by: test_right_after_save test_middle_of_save
Args: --save-async --write-delay 0.3 --step-delay 0.06 --keep 1
Star: yes
Family: publishing and keeping checkpoints
"""

import shutil

from tinymodels.checkpoints.durable import write_text
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class PointsEarly(Checkpoints):
    @property
    def latest(self):
        return self.folder / "latest"

    def begin(self, step):
        folder = self.path(step)
        folder.mkdir(parents=True, exist_ok=True)
        if self.world.leads:
            write_text(self.latest, folder.name)
            for path in self.newest_first()[self.keep :]:
                shutil.rmtree(path)
        return folder

    def publish(self, folder, step):
        pass  # it is there

    def newest_valid(self):
        return self.world.agree(self.folder / self.latest.read_text() if self.latest.exists() else None)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=PointsEarly))
