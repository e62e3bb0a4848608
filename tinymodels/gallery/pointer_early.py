"""pointer-early: the pointer to the latest checkpoint moves when an asynchronous save begins, not when it is done.

Wrong: `async_save` has returned, so the checkpoint counts as made: `latest` names it and the older ones are pruned. Its
    tensors are still being written. A crash before they are leaves a pointer to a torn checkpoint, and no other one.
Evidence: KF#102 c
Codes: torn-checkpoint checkpoint-lost crash-loop
Caught by: test_right_after_save
Equivalent: test_middle_of_save (the small files come first, and the pointer after them)
Args: --save-async --write-delay 0.3 --keep 1
Star: yes
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoint import Checkpoints
from tinymodels.durable import write_text
from tinymodels.train import main


class PointsEarly(Checkpoints):
    @property
    def latest(self):
        return self.folder / "latest"

    def begin(self, step):
        folder = self.path(step)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, state, folder):
        super().write(state, folder)
        if self.world.leads:
            write_text(self.latest, folder.name)
            self.prune(state.progress.step)

    def publish(self, folder, step):
        pass  # it is there

    def newest_valid(self):
        return self.world.agree(self.folder / self.latest.read_text() if self.latest.exists() else None)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=PointsEarly))
