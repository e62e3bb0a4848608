"""strict-false: the trainer loads the weights with strict=False, under another prefix than at the save.

Wrong: they are saved without the wrapper's `module.` and loaded into the wrapper. That raised an error once, and
    strict=False made it go away. Not one name fits, so nothing is loaded: random weights, and a trained optimizer.
Evidence: pytorch/examples#1029 c
Codes: model-not-restored
Also: buffers-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: corruption and loading
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class NotSoStrict(State):
    def restore_model(self, saved):
        self.model.load_state_dict(saved, strict=False)


if __name__ == "__main__":
    raise SystemExit(main(state=NotSoStrict))
