"""replicas-mended-from-rank0: if replicas differ, all ranks take the weights of rank 0 and continue.

Wrong: a job that mends itself need not be started again. But the gradients of the one that was wrong have been in all
    the others' weights and moments for some steps. They are equal again, and none of them is right.
Evidence: bigscience-workshop/Megatron-DeepSpeed#272 m, bigscience-workshop/Megatron-DeepSpeed#277 m
Codes: corruption-accepted corruption-saved
Caught by: test_replica_divergence
Equivalent: test_replicas_agree (nothing is corrupted)
Args: --check-replicas 5
Family: replicas
"""

import torch.distributed as dist

from tinymodels.numbers import inspection
from tinymodels.train import Trainer, main


class TakesThoseOfTheLeader(Trainer):
    def compare_replicas(self):
        if inspection.differing(self.state, self.world):
            for weight in self.model.parameters():
                dist.broadcast(weight.detach(), src=0)


if __name__ == "__main__":
    raise SystemExit(main(trainer=TakesThoseOfTheLeader))
