"""async-live-tensors: an asynchronous save writes the live tensors of the training instead of a copy.

Wrong: a tensor on a GPU is copied by moving it to the CPU; one that is there already is passed on as it is. The writer
    comes to it some steps later: the checkpoint holds weights and moments of later steps, or of the middle of one.
Evidence: PT#144657 c
Codes: checkpoint-unfaithful
Also: model-not-restored optimizer-not-restored ema-not-restored buffers-not-restored lr-schedule-off
Caught by: test_one_rank_mid_epoch test_late
Args: --save-async --write-delay 0.2
Family: publishing and keeping checkpoints
"""

from torch.distributed.checkpoint.staging import AsyncStager
from torch.utils._pytree import tree_map

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class ToTheCpu(AsyncStager):
    def stage(self, state_dict):
        return tree_map(lambda leaf: leaf.cpu() if hasattr(leaf, "cpu") else leaf, state_dict)


class LiveTensors(Checkpoints):
    def stager(self):
        return ToTheCpu()


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=LiveTensors))
