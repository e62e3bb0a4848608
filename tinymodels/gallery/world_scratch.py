"""world-scratch: the trainer ignores a checkpoint that another number of ranks saved.

Wrong: it cannot be read, so it is passed over like a damaged one, and older ones are looked at. All of them are by as
    many ranks, and that none is left is no error at a first launch. It is silent-scratch by another door: the run
    begins at its first step, and says what it says on its first day.
Evidence: facebookresearch/metaseq#602 o, NVIDIA-BioNeMo/bionemo-recipes#1250 m
Codes: restarted-from-scratch
Also: data-replayed data-skipped stale-checkpoint lr-schedule-off
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.checkpoints.manifest import saved_world_size
from tinymodels.train import main


class OursOnly(Checkpoints):
    def newest_first(self):
        return [path for path in super().newest_first() if saved_world_size(path) == self.world.size]

    def may_start_from_scratch(self):
        return True


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=OursOnly))
