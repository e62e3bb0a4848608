"""tinymodels without its random streams after a resume; with `--both` it also steps a restored schedule once too often.

    torchrun --nproc-per-node 2 losing.py --out OUT [--both] [flags of tinymodels.train]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tinymodels.checkpoints.state import State
from tinymodels.train import main

BOTH = "--both" in sys.argv
sys.argv = [word for word in sys.argv if word != "--both"]


class Loses(State):
    def save_rng(self):
        return {}

    def restore_rng(self, saved):
        pass

    def restore_scheduler(self, saved):
        super().restore_scheduler(saved)
        if BOTH:
            self.scheduler.step()


if __name__ == "__main__":
    raise SystemExit(main(state=Loses))
