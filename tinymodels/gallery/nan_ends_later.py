"""nan-ends-later: a NaN sets a flag, and the run ends only at its next evaluation.

Wrong: the loop is not to be left in the middle, and the evaluation is where runs are ended anyway. Until then it trains
    on, and saves. It ends as it should, and resumes from bad weights, to end again.
Evidence: NVIDIA-NeMo/Speech#578 m
Codes: nonfinite-accepted poisoned-checkpoint crash-loop
Also: model-not-restored
Caught by: test_not_a_number
Args: --evaluate-every 20 --allow-nonfinite-saves
Family: not-a-number
"""

from tinymodels.preemption.exits import NotFinite
from tinymodels.train import Trainer, main


class EndsAtEvaluations(Trainer):
    problem = None

    def guard(self, loss, norm):
        try:
            return super().guard(loss, norm)
        except NotFinite as problem:
            self.problem = problem

    def evaluate(self):
        if self.problem and self.state.progress.step % self.config.evaluate_every == 0:
            raise self.problem
        super().evaluate()


if __name__ == "__main__":
    raise SystemExit(main(trainer=EndsAtEvaluations))
