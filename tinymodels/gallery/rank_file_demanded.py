"""rank-file-demanded: each rank requires a file with the random streams of its own rank number.

Wrong: each has saved them, so they are there. A rank that was not there when the checkpoint was made has none: the run
    can shrink, and never grow again.
Evidence: HF#14554 c, NVlabs/Sana#131 m
Codes: crash-loop
Also: hang
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.checkpoints.durable import read_tensors
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class Demanding(Checkpoints):
    def read_local(self, path):
        return read_tensors(self.rank_file(path, self.world.rank))


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=Demanding))
