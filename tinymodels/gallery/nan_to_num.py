"""nan-to-num: the trainer replaces a NaN in a gradient by zero, and takes the step.

Wrong: it keeps the run alive, and one zero among thousands of gradients does no harm. A device that gives nonsense now
    and then is never found out: the run goes another way than it should, and says nothing.
Evidence: facebookresearch/habitat-lab#2230 o
Codes: corruption-accepted corruption-saved
Caught by: test_nan[gradient-nan]
Family: not-a-number
"""

from tinymodels.train import Trainer, main


class MakesNumbers(Trainer):
    def micro_step(self, rows, group):
        share = super().micro_step(rows, group)
        for weight in self.model.parameters():
            weight.grad.nan_to_num_()
        return share


if __name__ == "__main__":
    raise SystemExit(main(trainer=MakesNumbers))
