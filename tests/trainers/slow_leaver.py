"""The bundled trainer, whose save takes `SLOW_LEAVER` seconds longer once somebody has told it to leave."""

import os
import time
from collections import OrderedDict

from tinymodels.checkpoints.state import State
from tinymodels.train import Trainer, main


class Slow:
    """Takes its time while it is written, and is read as nothing."""

    def __reduce__(self):
        time.sleep(float(os.environ["SLOW_LEAVER"]))
        return OrderedDict, ()


class SlowState(State):
    leaving = False

    def save_rng(self):
        saved = super().save_rng()
        return {**saved, "slow": Slow()} if SlowState.leaving else saved

    def restore_rng(self, saved):
        super().restore_rng({name: each for name, each in saved.items() if name != "slow"})


class SlowLeaver(Trainer):
    def leave(self):
        SlowState.leaving = True
        self.saved = None  # it saves even if it has just saved this step
        super().leave()


if __name__ == "__main__":
    raise SystemExit(main(trainer=SlowLeaver, state=SlowState))
