"""inf-passes: the guard checks for NaN only, so an infinite norm passes.

Wrong: the function is called isnan, and what has gone wrong is called NaN. Gradients are clipped by dividing by their
    norm: all of them become zero, but the infinite one becomes not-a-number, after the guard has looked.
Evidence: open-mmlab/mmcv#643 c
Codes: nonfinite-accepted poisoned-checkpoint
Also: model-not-restored
Caught by: test_nan[gradient-inf]
Args: --on-nonfinite skip --allow-nonfinite-saves
Family: not-a-number
"""

import torch

from tinymodels.train import Trainer, main


class AsksForNan(Trainer):
    def guard(self, loss, norm):
        return super().guard(loss, norm if norm.isnan() else torch.zeros_like(norm))


if __name__ == "__main__":
    raise SystemExit(main(trainer=AsksForNan))
