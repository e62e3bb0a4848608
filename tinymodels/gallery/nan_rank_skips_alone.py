"""nan-rank-skips-alone: each rank skips only its own update if its own loss is bad.

Wrong: to look at what one has at hand costs no message. But the gradients have been summed by then: the rank with the
    bad batch stays as it was, all others take the step. In the next one it is the other way round.
Evidence: PL#5243 o
Codes: nonfinite-accepted poisoned-checkpoint
Also: model-not-restored exited-early
Caught by: test_not_a_number
Args: --allow-nonfinite-saves
Family: not-a-number
"""

from tinymodels.train import Trainer, main


class EachForItself(Trainer):
    own = 0.0

    def micro_step(self, rows, group):
        share = super().micro_step(rows, group)
        self.own += float(share)
        return share

    def guard(self, loss, norm):
        own, self.own = self.own, 0.0
        return own - own != 0.0  # neither infinite nor not-a-number


if __name__ == "__main__":
    raise SystemExit(main(trainer=EachForItself))
