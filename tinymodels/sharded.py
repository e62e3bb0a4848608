"""The tensors that the ranks hold together, on their way to the disk: now, or while training goes on."""

import time
from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from tinymodels.durable import disk_errors


class Writer(dcp.FileSystemWriter):
    """This rank's part of a sharded checkpoint; for a rehearsal, on a disk that takes its time."""

    def __init__(self, path: Path, delay: float) -> None:
        super().__init__(path)
        self.delay = delay

    def write_data(self, plan: Any, planner: Any) -> Any:
        time.sleep(self.delay)
        with disk_errors():
            return super().write_data(plan, planner)


def copying_stager() -> DefaultStager:
    """Copies every tensor before `async_save` returns: training writes over the original at once."""
    return DefaultStager(
        StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=False,
        )
    )
