"""retention-newest: retention sorts checkpoints by name, and the numbers have no leading zeros.

Wrong: as text, step-12 comes before step-6. Once the steps have one digit more, it is the checkpoint just saved that
    is pruned, each time, and those that are kept grow older. Nobody looks at them before something crashes.
Evidence: HF#11769 c, HF#26961 c
Codes: checkpoint-lost stale-checkpoint
Caught by: test_late test_one_rank_mid_epoch
Args: --save-every 3 --keep 2
Star: yes
Family: publishing and keeping checkpoints
"""

import shutil

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class InOrderOfNames(Checkpoints):
    def path(self, step):
        return self.folder / f"step-{step}"

    def prune(self, step):
        for path in sorted(self.folder.glob("step-*"))[: -self.keep]:
            shutil.rmtree(path)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=InOrderOfNames))
