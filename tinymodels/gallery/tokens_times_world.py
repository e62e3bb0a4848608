"""tokens-times-world: each rank counts its own tokens, and a resume multiplies them by the current number of ranks.

Wrong: all ranks have as many, so one count is enough, and where the sum is wanted it is multiplied. The count was made
    by the ranks of yesterday: half of them, and half of all that was ever used is gone from the books.
Evidence: ST#922 m, EleutherAI/sparsify#50 m
Codes: extra-state-not-restored
Also: log-wrong
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class ByRank(State):
    def save_local(self):
        return super().save_local() | {"counted": self.progress.tokens / self.data.world.size}

    def restore_local(self, saved):
        super().restore_local(saved)
        self.progress.tokens = round(saved["counted"] * self.data.world.size)


if __name__ == "__main__":
    raise SystemExit(main(state=ByRank))
