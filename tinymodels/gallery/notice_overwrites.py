"""notice-overwrites: the emergency save overwrites the last good checkpoint in place.

Wrong: time is short, so a save goes straight to its place, without the other name and the rename, and that place is one
    for all. The node is taken away in the middle of it: neither the old state is there nor the new one.
Evidence: petuum/adaptdl#70 c, DeepMLNet/DeepNet#29 c
Codes: emergency-too-late torn-checkpoint checkpoint-lost crash-loop
Also: notice-ignored hang
Caught by: test_preempted[aws]
Args: --notice aws --step-delay 0.2 --write-delay 8 --save-every 25
Good args: --notice aws --step-delay 0.2 --save-every 25
Options: --notices aws
Family: preemption
"""

import shutil

from tinymodels.gallery.torn_overwrite import InPlace
from tinymodels.train import main


class MakesRoom(InPlace):
    def begin(self, step):
        if self.world.leads and self.only.exists():
            shutil.rmtree(self.only)
        self.world.agree(None)
        return super().begin(step)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=MakesRoom))
