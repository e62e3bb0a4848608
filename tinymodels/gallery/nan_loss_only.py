"""nan-loss-only: the guard checks the loss, but not the gradient.

Wrong: a bad number shows in the loss sooner or later, and the loss is at hand. One that arises in the backward pass, or
    on the way between the ranks, is in the weights by then. From the next step on all updates are left out, for good.
Evidence: Nerogar/OneTrainer#1154 m
Codes: nonfinite-accepted poisoned-checkpoint
Also: model-not-restored
Caught by: test_nan[gradient-nan]
Args: --on-nonfinite skip --allow-nonfinite-saves
Family: not-a-number
"""

import torch

from tinymodels.train import Trainer, main


class LooksAtTheLoss(Trainer):
    def guard(self, loss, norm):
        return super().guard(loss, torch.zeros_like(norm))


if __name__ == "__main__":
    raise SystemExit(main(trainer=LooksAtTheLoss))
