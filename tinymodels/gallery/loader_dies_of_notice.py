"""loader-dies-of-notice: the signal ends the workers of the data loader, and the rank fails before it has saved.

Wrong: a worker inherits the handlers of its rank by the fork, so they are undone in it: the signal does there what it
    does by itself. Slurm sends USR1 to every process of a node, which ends the workers; the rank finds that out as it
    asks for the next batch.
Evidence: KF#177 o, KF#203 p
Codes: no-emergency-checkpoint
Caught by: test_preempted[slurm]
Args: --notice usr1 --workers 1 --step-delay 0.2
Options: --notices slurm
Family: preemption
"""

import signal
from functools import partial

from tinymodels import tokens
from tinymodels.train import main


def undo(worker):
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)


tokens.DataLoader = partial(tokens.DataLoader, worker_init_fn=undo)

if __name__ == "__main__":
    raise SystemExit(main())
