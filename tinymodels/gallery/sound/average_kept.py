"""average-kept: a custom moving average is in the checkpoint, and the export at the end is made from it.

Right: the average is a dict of tensors, not a module that a library knows. Each checkpoint holds it, and a resume puts
    it back before the next step.
Silent in: test_one_rank_mid_epoch test_resume test_twice
"""

import torch

from tinymodels.checkpoints.state import State
from tinymodels.train import Trainer, main


class Average(dict):
    """The weights' average, by name."""

    def update_parameters(self, model):
        for name, weight in model.named_parameters():
            self[name] = 0.98 * self[name] + 0.02 * weight.detach()

    def state_dict(self):
        return dict(self)


class Keeping(Trainer):
    state: State | None = None

    def build(self):
        state = super().build()
        weights = self.unwrapped.named_parameters()
        state.average = Average((name, weight.detach().clone()) for name, weight in weights)
        return state

    def run(self):
        super().run()
        if self.state is not None and self.world.leads:
            torch.save(self.state.average.state_dict(), self.config.out / "published.pt")


class Kept(State):
    def restore_average(self, saved):
        self.average.update(saved)


if __name__ == "__main__":
    raise SystemExit(main(trainer=Keeping, state=Kept))
