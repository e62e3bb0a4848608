"""earlystop-reset: each resume resets the patience of early stopping.

Wrong: the best loss and the count of evaluations since are saved, as the last things that anybody added, and nobody
    restores them. A job that is interrupted more often than its patience runs out never stops.
Evidence: HF#28544 c, PL#1463 c
Codes: extra-state-not-restored
Also: loss-diverged
Caught by: test_one_rank_mid_epoch test_resume
Args: --lr 0.1 --evaluate-every 4 --patience 11
Family: counters
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class Patient(State):
    def restore_stopping(self, saved):
        pass


if __name__ == "__main__":
    raise SystemExit(main(state=Patient))
