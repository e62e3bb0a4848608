"""scaler-missing: the checkpoint lacks the gradient scaler.

Wrong: the scaler has no weights and came last, with mixed precision. After a resume it begins at its first scale
    again: too high, and steps are dropped until it has come down; too low, and small gradients are lost.
Evidence: HF#34053 c, TT#146 c
Codes: scaler-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Args: --amp
Star: yes
Family: optimizer and schedule
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class WithoutScaler(State):
    def save_scaler(self):
        return {}

    def restore_scaler(self, saved):
        pass


if __name__ == "__main__":
    raise SystemExit(main(state=WithoutScaler))
