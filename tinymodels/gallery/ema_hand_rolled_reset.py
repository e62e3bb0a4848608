"""ema-hand-rolled-reset: a custom moving average is saved in every checkpoint and never loaded.

Wrong: the average is a dict of tensors beside the model, made from the first weights of the process. That it is in
    the checkpoint looks like enough; after a resume it is an average over random weights.
Evidence: PixArt-alpha/PixArt-sigma#156 o, Vchitect/Latte#55 c
Codes: ema-not-restored
Also: extra-state-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: model and average
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import Trainer, main


class Average(dict):
    """The weights' average, by name."""

    def update_parameters(self, model):
        for name, weight in model.named_parameters():
            self[name].lerp_(weight.detach(), 0.02)

    def state_dict(self):
        return dict(self)


class HandRolled(Trainer):
    def build(self):
        state = super().build()
        state.average = Average(
            (name, weight.detach().clone()) for name, weight in self.unwrapped.named_parameters()
        )
        return state


class NeverRead(State):
    def restore_average(self, saved):
        pass


if __name__ == "__main__":
    raise SystemExit(main(trainer=HandRolled, state=NeverRead))
