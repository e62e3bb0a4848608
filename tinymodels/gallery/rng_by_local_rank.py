"""rng-by-local-rank: the random streams are stored by the local rank on each node.

Wrong: on one node that is their number. On several there is a rank 0 on each: one overwrites the other's streams, and
    after a resume both go on with the same ones.
Evidence: NVIDIA/apex#886 o, vllm-project/speculators#680 p
Codes: rng-not-restored
Caught by: test_worker_node test_longer_than_the_timeout
Nodes: 2
Args: --timeout 6
Family: elasticity and restarts
"""

import os

import torch.distributed as dist

from tinymodels.checkpoints.durable import write_tensors
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class ByPlace(Checkpoints):
    def rank_file(self, folder, rank):
        return folder / f"rank-{os.environ['LOCAL_RANK']}.pt"

    def write(self, state, folder):
        super().write(state, folder)
        dist.barrier(self.group)
        if not self.world.leads:  # again, so that the file is no mixture of two
            write_tensors(self.rank_file(folder, self.world.rank), state.save_local())


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=ByPlace))
