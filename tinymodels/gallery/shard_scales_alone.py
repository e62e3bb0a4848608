"""shard-scales-alone: an overflow in one rank's shard is not shared with the other ranks.

Wrong: a gradient scaler looks at the gradients that it is given, and a rank has but a part of them. It leaves the step
    out and halves its scale, the others do neither. From then on what they add up is scaled in two ways.
Evidence: PT#115710 c
Codes: corruption-accepted corruption-saved
Also: poisoned-checkpoint nonfinite-accepted
Caught by: test_nan[gradient-inf]
Args: --parallel fsdp --amp
Family: not-a-number
"""

from tinymodels.train import Trainer, main


class ScalesAlone(Trainer):
    def guard(self, loss, norm):
        finite = all(weight.grad.to_local().isfinite().all() for weight in self.model.parameters())
        for found in self.state.scaler._found_inf_per_device(self.state.optimizer).values():
            found.fill_(not finite)
        return super().guard(loss, norm)


if __name__ == "__main__":
    raise SystemExit(main(trainer=ScalesAlone))
