"""rng-unused-dropped: a random stream is not restored, from which only the log draws.

Wrong: some steps are logged in more detail, and Python's `random` chooses them. The checkpoint has numpy's stream and
    torch's, as the training draws from no other. After a resume other steps are chosen; no loss and no batch depends
    on it. That changes with the first augmentation that somebody writes with `random`: a weakness, no loss.
Evidence: HF#11582 m
Codes: rng-unused-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: random numbers
"""

import random

from tinymodels.checkpoints.state import State
from tinymodels.train import Trainer, main


class Chatty(Trainer):
    def step(self, group):
        loss = super().step(group)
        if random.random() < 0.1:
            self.world.say(f"step {self.state.progress.step} in detail: loss {loss:.9f}")
        return loss


class WithoutPython(State):
    def restore_rng(self, saved):
        super().restore_rng(saved | {"python": random.getstate()})


if __name__ == "__main__":
    raise SystemExit(main(trainer=Chatty, state=WithoutPython))
