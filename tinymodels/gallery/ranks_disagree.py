"""ranks-disagree: each rank saves its whole state, and resumes from its own newest checkpoint.

Wrong: disks are local to their nodes, so every rank looks after itself, and with care: files appear whole, and the
    newest counts. Nobody asks the others. After a crash between two of these saves they resume from different steps.
Evidence: KF#49 c, HF#28270 c
Codes: ranks-diverged
Also: crash-loop hang model-not-restored optimizer-not-restored lr-schedule-off ema-not-restored rng-not-restored
    data-replayed data-skipped corrupt-accepted
Caught by: test_right_after_save
Args: --timeout 20
Family: elasticity and restarts
"""

import os

from tinymodels.checkpoints.durable import read_tensors, write_tensors
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class EachItsOwn(Checkpoints):
    def attempt(self, step, state):
        part = self.path(step) / f".rank-{self.world.rank}.pt"
        part.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(part, {kind: getattr(state, f"save_{kind}")() for kind in ("sharded", "shared", "local")})
        os.replace(part, part.with_name(part.name[1:]))

    def newest_valid(self):
        mine = f"rank-{self.world.rank}.pt"
        return next((path for path in self.newest_first() if (path / mine).exists()), None)

    def read(self, state, path):
        saved = read_tensors(path / f"rank-{self.world.rank}.pt")
        for kind, own in saved.items():
            getattr(state, f"restore_{kind}")(own)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=EachItsOwn))
