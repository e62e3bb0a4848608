"""micro-batch-skipped: the resume skips the first micro-batch of its first accumulation window.

Wrong: the position is that of the last micro-batch that was begun, not of the next one. With noise on the rows the
    samples are new each time, and only the rows show what is missing.
Evidence: kohya-ss/sd-scripts#2425 o
Codes: data-skipped
Caught by: test_resume
Equivalent: test_one_rank_mid_epoch (no epoch of an own sampler is seen: the kill follows a save at the end of one),
    test_epoch_boundary (the first micro-batch of an epoch is not skipped)
Args: --noise 0.2
Family: position in the data
"""

from tinymodels.tokens import add_noise
from tinymodels.train import Data, Group, main


class SkipsOne(Data):
    def groups(self):
        rest, at = self.remaining(), self.position
        while rest:
            size = min(self.stride - at % self.stride, len(self.tokens) - at)
            count = -(-size // self.chunk)
            taken, rest = rest[:count], rest[count:]
            rows = [self.tokens.rows[indices] for indices in taken]
            yield Group([add_noise(each, self.noise, self.tokens.vocabulary) for each in rows], size)
            at += size

    def load_state_dict(self, saved):
        super().load_state_dict(saved)
        if self.position:
            self.position += self.chunk


if __name__ == "__main__":
    raise SystemExit(main(data=SkipsOne))
