"""ema-saved-as-model: the checkpoint holds the averaged weights in the place of the trained ones.

Wrong: the average is swapped into the model for the evaluation, and the save comes before it is swapped out again. Each
    load returns exactly what was saved. After a resume the loss even looks better; the training has lost its weights.
Evidence: atomistic-machine-learning/schnetpack#785 m, mir-group/nequip#590 p
Codes: checkpoint-unfaithful
Caught by: test_one_rank_mid_epoch test_resume
Family: model and average
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class SavedWhileSwapped(State):
    def save_model(self):
        averaged = self.average.module.state_dict()
        return {name: averaged[name].clone() for name in super().save_model()}


if __name__ == "__main__":
    raise SystemExit(main(state=SavedWhileSwapped))
