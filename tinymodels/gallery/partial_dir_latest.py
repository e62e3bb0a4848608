"""partial-dir-latest: the trainer writes a checkpoint directly under its final name, and resumes from the newest name.

Wrong: a directory that is there is taken for one that is whole; nobody looks whether it has its manifest. A crash in
    the middle of a save leaves one that is newer than all others, and all resumes die of it until somebody deletes it.
Evidence: HF#35782 c, HF#35525 o
Codes: torn-checkpoint crash-loop
Caught by: test_middle_of_save test_between_writes
Star: yes
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class NewestByName(Checkpoints):
    def begin(self, step):
        folder = self.path(step)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def publish(self, folder, step):
        pass  # it is there

    def newest_valid(self):
        return self.world.agree(next(iter(self.newest_first()), None))


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=NewestByName))
