"""own-rows-rng: the trainer takes rows by indexing, adds noise to them, and saves no random streams.

Wrong: a tensor of all samples needs no loader. Its position is restored, and the noise comes of the global streams,
    which nobody saved: the right rows come after the resume, under other noise.
Evidence: HF#11504 c, vllm-project/speculators#1026 o
Codes: rng-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Args: --noise 0.2
Family: random numbers
"""

from tinymodels.checkpoints.state import State
from tinymodels.tokens import add_noise
from tinymodels.train import Data, Group, main


class OwnRows(Data):
    def groups(self):
        rest = self.remaining()
        while rest:
            size = min(self.stride, len(self.tokens) - self.position)
            taken, rest = rest[: self.stride // self.chunk], rest[self.stride // self.chunk :]
            rows = [self.tokens.rows[indices] for indices in taken]
            yield Group([add_noise(each, self.noise, self.tokens.vocabulary) for each in rows], size)


class WithoutStreams(State):
    def save_rng(self):
        return {}

    def restore_rng(self, saved):
        pass


if __name__ == "__main__":
    raise SystemExit(main(state=WithoutStreams, data=OwnRows))
