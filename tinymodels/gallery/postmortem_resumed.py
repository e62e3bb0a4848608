"""postmortem-resumed: the post-mortem dump lies among the checkpoints, and is the newest of them.

Wrong: there is code that writes all there is, so before the run ends for a bad number it is called once more. That is
    in the middle of a step: the weights are those before it, dice have been thrown for it. The next launch resumes
    from there, as from any checkpoint.
Evidence: MLM#3981 m
Codes: rng-not-restored
Also: buffers-not-restored corruption-saved
Caught by: test_not_a_number
Family: not-a-number
"""

from tinymodels.preemption.exits import NotFinite
from tinymodels.train import Trainer, main


class KeepsTheBody(Trainer):
    def guard(self, loss, norm):
        try:
            return super().guard(loss, norm)
        except NotFinite:
            self.checkpoints.save(self.state.progress.step, self.state)
            raise


if __name__ == "__main__":
    raise SystemExit(main(trainer=KeepsTheBody))
