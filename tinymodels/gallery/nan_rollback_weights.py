"""nan-rollback-weights: a rollback inside the process restores the weights, but not the moments.

Wrong: the weights were what had gone bad, and warm moments are better than old ones. Those of steps that were undone
    are applied once more, to weights that they do not belong to.
Evidence: ooples/AiDotNet#393 m
Codes: optimizer-not-restored
Caught by: test_nan[gradient-nan]
Args: --rollback-after 1
Family: not-a-number
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class WarmMoments(State):
    def restore_optimizer(self, saved):
        if self.progress.step == 0:  # a process that has just begun has none
            super().restore_optimizer(saved)


if __name__ == "__main__":
    raise SystemExit(main(state=WarmMoments))
