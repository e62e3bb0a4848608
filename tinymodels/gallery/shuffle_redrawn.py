"""shuffle-redrawn: a resume draws the order of the epoch again, from a random stream in mid-epoch.

Wrong: the global generator shuffles at the start of each epoch, and its state is restored, so all seems well. But a
    checkpoint in mid-epoch has the state after many draws: what comes is another order, of which the head is skipped.
Evidence: wyim-pgl/transgenic#59 o
Codes: data-replayed data-skipped
Also: rng-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Equivalent: test_epoch_boundary (the checkpoint is at the end of an epoch, just before the draw)
Family: position in the data
"""

import torch

from tinymodels.train import Data, main


class Redrawing(Data):
    def order(self, epoch):
        return self.world.agree(torch.randperm(len(self.tokens)).tolist())


if __name__ == "__main__":
    raise SystemExit(main(data=Redrawing))
