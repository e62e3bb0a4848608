"""The bundled trainer, which resumes exactly twice: from the third resume on it forgets the random streams."""

import sys
from pathlib import Path

import torch.distributed as dist

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class ForgetsLater(State):
    def restore_rng(self, saved):
        out = Path(sys.argv[sys.argv.index("--out") + 1])
        resumes = out / f"resumes-of-{dist.get_rank()}"
        count = len(resumes.read_text()) + 1 if resumes.exists() else 1
        resumes.write_text("r" * count)
        if count < 3:
            super().restore_rng(saved)


if __name__ == "__main__":
    raise SystemExit(main(state=ForgetsLater))
