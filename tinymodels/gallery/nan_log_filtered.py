"""nan-log-filtered: the guard checks the logged loss, in which a NaN is replaced.

Wrong: one point that is not a number spoils the curve, so the mean of the last losses is logged in its place. Who reads
    the log, be it a guard or a person, sees a run that is well, to its end.
Evidence: huggingface/trl#6702 c, HF#13619 m
Codes: nonfinite-accepted poisoned-checkpoint
Also: model-not-restored
Caught by: test_not_a_number
Args: --allow-nonfinite-saves
Family: not-a-number
"""

import math
import statistics

import torch

from tinymodels.train import Trainer, main


class ReadsTheLog(Trainer):
    logged = ()

    def guard(self, loss, norm):
        shown = loss if math.isfinite(loss) else statistics.fmean(self.logged or [0.0])
        self.logged = (*self.logged, shown)[-8:]
        return super().guard(shown, torch.zeros_like(norm))  # no norm is logged


if __name__ == "__main__":
    raise SystemExit(main(trainer=ReadsTheLog))
