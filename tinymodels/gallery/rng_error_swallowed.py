"""rng-error-swallowed: the trainer ignores errors while it restores the random streams.

Wrong: a resume should not die of a generator, so the exception is caught, and logged where nobody looks. Here the
    stream of Python goes through JSON, which knows no tuples: `random.setstate` refuses the list that comes back,
    and the streams after it are not restored either.
Evidence: ACC#4283 o
Codes: rng-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: random numbers
"""

import json
import logging

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class Swallowing(State):
    def save_rng(self):
        saved = super().save_rng()
        return saved | {"python": json.loads(json.dumps(saved["python"]))}

    def restore_rng(self, saved):
        try:
            super().restore_rng(saved)
        except Exception:
            logging.info("Could not load random states")


if __name__ == "__main__":
    raise SystemExit(main(state=Swallowing))
