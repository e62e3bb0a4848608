"""nan-rotates-good: a NaN loss ends the run only after some patience, and checkpoints continue meanwhile.

Wrong: one bad loss may be an accident of the log, so it takes eight in a row. By then a checkpoint of bad weights has
    been published and has pushed the last good one out. The job stops as it should, and resumes from bad weights.
Evidence: kyutai-labs/pocket-tts#262 m
Codes: nonfinite-accepted poisoned-checkpoint crash-loop
Also: model-not-restored
Caught by: test_not_a_number
Args: --save-every 5 --keep 1 --allow-nonfinite-saves
Star: yes
Family: not-a-number
"""

import math

from tinymodels.train import Trainer, main


class Forbearing(Trainer):
    in_a_row = 0

    def guard(self, loss, norm):
        self.in_a_row = 0 if math.isfinite(loss) else self.in_a_row + 1
        if self.in_a_row == 8:
            super().guard(loss, norm)


if __name__ == "__main__":
    raise SystemExit(main(trainer=Forbearing))
