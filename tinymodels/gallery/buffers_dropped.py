"""buffers-dropped: the checkpoint has the parameters but not the buffers.

Wrong: `named_parameters` looks like all there is to a model, and `strict=False` keeps the load quiet. Running
    statistics, counters and caches are buffers; after a resume they are those of a new model.
Evidence: torch/nn#1165 c
Codes: buffers-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: model and average
"""

from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class ParametersOnly(State):
    def save_model(self):
        trained = {name.removeprefix("module.") for name, _ in self.model.named_parameters()}
        return {name: tensor for name, tensor in super().save_model().items() if name in trained}

    def restore_model(self, saved):
        set_model_state_dict(self.model, saved, options=StateDictOptions(strict=False))


if __name__ == "__main__":
    raise SystemExit(main(state=ParametersOnly))
