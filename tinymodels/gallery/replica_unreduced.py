"""replica-unreduced: the trainer sums gradients by hand, and omits those of the norms.

Wrong: some parameters are somebody else's to reduce, and are left out by name; here there is nobody else. Each replica
    learns its norms from its own samples alone. They drift apart from the first step on, and the loss goes down.
Evidence: bigcode-project/Megatron-LM#12 m, EleutherAI/gpt-neox#1259 m, NVIDIA-NeMo/RL#3716 o
Codes: ranks-diverged
Caught by: test_replicas_agree
Family: replicas
"""

from contextlib import contextmanager

import torch.distributed as dist

from tinymodels.train import Trainer, main


class SumsByHand(Trainer):
    @contextmanager
    def exchange(self, last):
        with self.model.no_sync():
            yield
        for name, weight in self.model.named_parameters():
            if last and "norm" not in name:
                dist.all_reduce(weight.grad)
                weight.grad /= self.world.size


if __name__ == "__main__":
    raise SystemExit(main(trainer=SumsByHand))
