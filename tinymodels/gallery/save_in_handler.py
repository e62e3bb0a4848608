"""save-in-handler: the signal handler saves and exits.

Wrong: time is short when the machine is wanted back, so the handler does it at once. It runs in the middle of whatever
    the rank is in, and a save takes all ranks: those that had no signal are in the middle of a step.
Evidence: PL#21406 o
Codes: hang
Caught by: test_sigterm_one_rank
Options: --timeout 45
Family: preemption
"""

import signal

from tinymodels.train import Trainer, main


class AtOnce(Trainer):
    def train(self):
        signal.signal(signal.SIGTERM, lambda number, frame: self.leave())
        super().train()


if __name__ == "__main__":
    raise SystemExit(main(trainer=AtOnce))
