"""Which ranks hold replicas of the model of this one, as DistributedDataParallel keeps them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any


def replicas(roots: Iterable[Any]) -> list[int]:
    """The ranks of the process group of an outermost module that is such a one; empty where there is none."""
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    if parallel is None:
        return []
    for root in roots:
        # torch.compile may have wrapped it once more.
        module = getattr(root, "_orig_mod", root)
        if isinstance(module, parallel.DistributedDataParallel):
            distributed = sys.modules["torch.distributed"]
            return sorted(distributed.get_process_group_ranks(module.process_group))
    return []
