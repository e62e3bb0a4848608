"""average-exported: a custom moving average is outside the checkpoint, and the export at the end is made from it.

Wrong: the average is a dict that the trainer keeps beside its state. No step depends on it and no checkpoint holds it,
    so after a resume it begins anew at the weights of a new model. What is published is made of it, once, at the end.
Evidence: PixArt-alpha/PixArt-sigma#156 o, Vchitect/Latte#55 c
Codes: ema-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: model and average
"""

import torch

from tinymodels.train import Trainer, main


class Averaging(Trainer):
    average: dict[str, torch.Tensor] | None = None

    def build(self):
        state = super().build()
        self.average = {name: weight.detach().clone() for name, weight in self.unwrapped.named_parameters()}
        return state

    def update(self, loss):
        super().update(loss)
        for name, weight in self.unwrapped.named_parameters():
            self.average[name] = 0.98 * self.average[name] + 0.02 * weight.detach()

    def run(self):
        super().run()
        if self.average is not None and self.world.leads:
            torch.save(self.average, self.config.out / "published.pt")


if __name__ == "__main__":
    raise SystemExit(main(trainer=Averaging))
