"""worker-rng-repeat: augmentation draws from the random streams of loader workers, which no checkpoint has.

Wrong: augmentation moves into the workers, where there is time for it. A worker is seeded whenever the loader is
    iterated over: after a resume in the middle of an epoch it throws the dice of the epoch's beginning again.
Evidence: fangchangma/sparse-to-dense.pytorch#19 o, pytorch/ignite#929 c, PL#20412 o
Codes: rng-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Equivalent: test_epoch_boundary (the checkpoint is at the end of an epoch, where workers restart in any case)
Args: --workers 1 --noise 0.3
Family: random numbers
"""

import numpy
import torch

from tinymodels.tokens import Tokens
from tinymodels.train import Data, main


class NoisyTokens(Tokens):
    noise: float

    def __getitems__(self, indices):
        rows = super().__getitems__(indices)
        hit = torch.from_numpy(numpy.random.random(rows.shape) < self.noise)
        return torch.where(hit, torch.from_numpy(numpy.random.randint(self.vocabulary, size=rows.shape)), rows)


class InWorkers(Data):
    def __init__(self, tokens, config, world):
        super().__init__(NoisyTokens(tokens.rows, tokens.vocabulary), config, world)
        self.tokens.noise, self.noise = config.noise, 0.0


if __name__ == "__main__":
    raise SystemExit(main(data=InWorkers))
