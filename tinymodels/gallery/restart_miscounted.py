"""restart-miscounted: the rendezvous uses the restart count, which each node's launcher counts separately.

Wrong: an attempt must not find what the attempt before it has left, so its number is part of all names. A launcher
    counts only restarts of its own, and on a node that has come back it begins at 0: the ranks wait for each other in
    two places.
Evidence: PT#135712 c, PT#108158 o, PT#147064 o
Codes: crash-loop
Also: hang
Caught by: test_shrink_and_grow
Options: --relaunches 0
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

import os

import torch.distributed as dist

from tinymodels.elasticity.world import World
from tinymodels.train import main


class ByAttempt(World):
    @staticmethod
    def init_group(backend, limit):
        store, rank, size = next(dist.rendezvous("env://", timeout=limit))
        store = dist.PrefixStore(f"attempt-{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)


if __name__ == "__main__":
    raise SystemExit(main(world=ByAttempt))
