"""loader-step-ahead: the loader keeps its position in a separate file, and finds the latest file by itself.

Wrong: the loader comes from another team than the checkpoints. Each save writes both, the loader's first, and whole.
    If a crash comes between the two, or an older checkpoint is taken, then the loader is ahead of the model.
Evidence: TT#4686 m
Codes: data-skipped
Also: exited-early
Caught by: test_middle_of_save test_between_writes test_flipped_bit
Equivalent: test_one_rank_mid_epoch test_resume test_epoch_boundary (the newest checkpoint and the file agree)
Family: position in the data
"""

import json
import os

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class LoaderApart(Checkpoints):
    @property
    def place(self):
        return self.folder / "loader.json"

    def write(self, state, folder):
        if self.world.leads:
            written = self.place.with_suffix(".tmp")
            written.write_text(json.dumps(state.save_data()))
            os.replace(written, self.place)
        super().write(state, folder)

    def read(self, state, path):
        super().read(state, path)
        state.restore_data(json.loads(self.place.read_text()))


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=LoaderApart))
