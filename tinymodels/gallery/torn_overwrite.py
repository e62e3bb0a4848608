"""torn-overwrite: there is one checkpoint, and each save overwrites it in place.

Wrong: the last state is all that a resume needs, and one directory saves disk. While it is being written it is neither
    the old one nor the new one: a crash in a save destroys the only copy, and nothing tells it from a good one.
Evidence: PL#688 c, PL#19970 o
Codes: torn-checkpoint checkpoint-lost crash-loop
Caught by: test_middle_of_save
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class InPlace(Checkpoints):
    @property
    def only(self):
        return self.folder / "last"

    def begin(self, step):
        self.only.mkdir(parents=True, exist_ok=True)
        return self.only

    def publish(self, folder, step):
        pass  # it is there

    def newest_valid(self):
        return self.world.agree(self.only if self.only.exists() else None)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=InPlace))
