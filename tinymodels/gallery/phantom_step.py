"""phantom-step: a failed save stays in the list of pending saves, and later saves wait for it.

Wrong: one save at a time, so that a slow disk does not pile them up: while one is on its way, the next is skipped. What
    fails is logged, and never taken from the list. From then on there are no checkpoints, and nobody is told.
Evidence: AI-Hypercomputer/maxtext#5260 p
Codes: stale-checkpoint
Caught by: test_write_error
Family: publishing and keeping checkpoints
"""

import logging

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.elasticity.collective_io import StorageFailed
from tinymodels.train import main


class OneAtATime(Checkpoints):
    on_their_way = ()

    def save(self, step, state):
        if self.on_their_way:
            logging.info("step %d: still saving %s, skipped", step, self.on_their_way)
            return
        self.on_their_way = (step,)
        try:
            self.attempt(step, state)
            self.on_their_way = ()
        except StorageFailed as problem:
            logging.info("step %d: %s", step, problem)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=OneAtATime))
