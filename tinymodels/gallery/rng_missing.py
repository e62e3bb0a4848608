"""rng-missing: the checkpoint lacks the random streams.

Wrong: weights and optimizer are what people think of when they think of state; a generator is nobody's attribute.
    The same batches come after the resume, under another dropout. No error, no jump in the loss.
Evidence: HF#11504 c, HF#11582 m
Codes: rng-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Star: yes
Family: random numbers
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class WithoutStreams(State):
    def save_rng(self):
        return {}

    def restore_rng(self, saved):
        pass


if __name__ == "__main__":
    raise SystemExit(main(state=WithoutStreams))
