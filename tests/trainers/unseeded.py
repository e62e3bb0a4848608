"""tinymodels, but nobody seeds its dropout: no two runs are alike. Told to, it forgets the optimizer as it resumes."""

import sys

import torch

from tinymodels.checkpoints.state import State
from tinymodels.train import Trainer, main

FORGET = "--forget-optimizer"


class Unseeded(Trainer):
    def train(self):
        torch.seed()
        return super().train()


class Forgetful(State):
    def restore_optimizer(self, saved):
        super().restore_optimizer(saved)
        self.optimizer.state.clear()


if __name__ == "__main__":
    argv = [word for word in sys.argv[1:] if word != FORGET]
    raise SystemExit(main(argv, trainer=Unseeded, state=Forgetful if FORGET in sys.argv else State))
