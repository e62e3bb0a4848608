"""nan-through-clip: the trainer clips gradients and uses no other guard.

Wrong: a norm that is not a number is not too large either: no error, and every gradient is multiplied by it. One bad
    batch makes all weights bad in one step, and nobody looks at them before the evaluation.
Evidence: PT#46849 c
Codes: nonfinite-accepted poisoned-checkpoint
Also: model-not-restored
Caught by: test_not_a_number
Args: --allow-nonfinite-saves
Family: not-a-number
"""

from tinymodels.train import Trainer, main


class Unguarded(Trainer):
    def guard(self, loss, norm):
        pass  # the norm is clipped


if __name__ == "__main__":
    raise SystemExit(main(trainer=Unguarded))
