"""lazy-keys-dropped: the trainer loads a checkpoint into an optimizer whose state is still empty.

Wrong: a distributed load fills the keys that it is given. An optimizer makes its moments in its first step, so a new
    one has no keys for them: they are in the file, nobody asks for them, and nothing complains.
Evidence: PT#126881 o
Codes: optimizer-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: corruption and loading
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class AsItIs(State):
    def save_optimizer(self):
        return self.optimizer.state_dict()

    def restore_optimizer(self, saved):
        self.optimizer.load_state_dict(saved)


if __name__ == "__main__":
    raise SystemExit(main(state=AsItIs))
