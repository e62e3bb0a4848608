"""save-trips-watchdog: a watchdog ends the run if a save takes longer than earlier saves.

Wrong: its limit was found out with all ranks. Each writes its share of a checkpoint, on a disk as fast as it is: with
    half of the ranks a share is twice as large and takes twice as long, and a healthy run is killed at each save.
Evidence: meta-pytorch/torchtune#2093 o
Codes: crash-loop
Also: hang
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 20 --timeout 6 --write-delay 2
Family: elasticity and restarts
"""

import os
import threading

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class Watched(Checkpoints):
    LIMIT = 1.5  # times the delay of a share

    def write_sharded(self, state, folder):
        shares, delay = 2 / self.world.size, self.write_delay  # a slow disk: so long for half of the tensors
        self.write_delay = delay * shares
        watchdog = threading.Timer(self.LIMIT * delay, os._exit, [1])
        watchdog.start()
        super().write_sharded(state, folder)
        watchdog.cancel()
        self.write_delay = delay


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=Watched))
