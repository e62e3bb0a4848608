"""tinymodels, but there is one checkpoint, written over in place, and nobody looks whether it is whole."""

from tinymodels.checkpoint import Checkpoints
from tinymodels.train import main


class InPlace(Checkpoints):
    def save(self, step, state):
        folder = self.folder / "latest"
        folder.mkdir(parents=True, exist_ok=True)
        self.write(state, folder)
        self.world.barrier()

    def newest_valid(self):
        folder = self.folder / "latest"
        return folder if folder.is_dir() else None


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=InPlace))
