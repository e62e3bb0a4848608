"""optim-dtype-cast: the load casts the moments to a narrower type.

Wrong: whoever loads casts all that is loaded to the type in which the job computes, moments too. The file is right,
    and float32 is restored in the end, but sixteen bits of each number are zero. The drift is small and lasts.
Evidence: PT#43706 o, TT#4615 m
Codes: optimizer-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: optimizer and schedule
"""

import torch
from torch.utils._pytree import tree_map

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class Casting(State):
    def restore_optimizer(self, saved):
        super().restore_optimizer(tree_map(narrow, saved))


def narrow(leaf):
    """What was saved, in the type of mixed precision."""
    return leaf.bfloat16() if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf


if __name__ == "__main__":
    raise SystemExit(main(state=Casting))
