"""rng-rank0-for-all: every rank continues with the random streams of rank 0.

Wrong: the streams are kept in the part of the checkpoint that rank 0 writes for all, beside the schedule and the
    step. After the resume the ranks throw the same dice: dropout is correlated, and only rank 0 is as before.
Evidence: MLM#6858 m, AM#3437 m
Codes: rng-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: random numbers
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class SharedStreams(State):
    def save_shared(self):
        return super().save_shared() | {"rng": self.save_rng()}

    def restore_shared(self, saved):
        super().restore_shared(saved)
        self.restore_rng(saved["rng"])

    def save_local(self):
        return {}

    def restore_local(self, saved):
        pass


if __name__ == "__main__":
    raise SystemExit(main(state=SharedStreams))
