"""read-ahead-counted: the position counts what was read ahead, not what was trained on.

Wrong: a queue keeps two steps ready, and whatever fills it moves the position. What lies in the queue at a save has
    been counted, and is in no checkpoint: the resume begins after it.
Evidence: lhotse-speech/lhotse#785 c
Codes: data-skipped
Also: exited-early
Caught by: test_resume
Equivalent: test_one_rank_mid_epoch (no epoch of an own sampler is seen: the kill follows a save at the end of one),
    test_epoch_boundary (the queue is empty at the end of an epoch)
Args: --noise 0.2
Family: position in the data
"""

from collections import deque

from tinymodels.tokens import add_noise
from tinymodels.train import Data, Group, main

AHEAD = 2


class ReadsAhead(Data):
    def groups(self):
        rest, queue = self.remaining(), deque()
        while rest or queue:
            while rest and len(queue) <= AHEAD:
                size = min(self.stride, len(self.tokens) - self.position)
                count = -(-size // self.chunk)
                queue.append((size, [self.tokens.rows[indices] for indices in rest[:count]]))
                self.position, rest = self.position + size, rest[count:]
            size, rows = queue.popleft()
            yield Group([add_noise(each, self.noise, self.tokens.vocabulary) for each in rows], size)
        self.epoch, self.position = self.epoch + 1, 0

    def used(self, group):
        pass


if __name__ == "__main__":
    raise SystemExit(main(data=ReadsAhead))
