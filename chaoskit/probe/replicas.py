"""`replicas`: the ranks that hold replicas of this rank's model under DistributedDataParallel."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any


def replicas(roots: Iterable[Any]) -> list[int]:
    """The ranks of the process group of the outermost DistributedDataParallel module; empty if there is none."""
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
