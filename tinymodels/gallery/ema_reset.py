"""ema-reset: the checkpoint lacks the moving average of the weights.

Wrong: training does not need the average, only evaluation does. It begins anew at the weights of the resume, and
    evaluation is worse until it has forgotten that, which is long after anybody still looks.
Evidence: ai2cm/ace#349 c
Codes: ema-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: model and average
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class WithoutAverage(State):
    def save_average(self):
        return {}

    def restore_average(self, saved):
        pass


if __name__ == "__main__":
    raise SystemExit(main(state=WithoutAverage))
