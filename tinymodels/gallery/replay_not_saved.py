"""replay-not-saved: every 25th step trains on an old batch, from a buffer that no checkpoint has.

Wrong: the buffer holds the last 20 batches of this process, and a replay takes the oldest of them. After a resume it
    fills again. Until the next replay nothing differs, and then the oldest batch is a younger one.
Evidence: NVIDIA-NeMo/RL#2651 m, nicklashansen/tdmpc2#28 c
Codes: data-replayed
Also: data-skipped loss-diverged
Caught by: test_one_rank_mid_epoch test_resume test_twice
Family: position in the data
"""

from collections import deque

from tinymodels.train import Trainer, main

EVERY, MOST = 25, 20


class Replaying(Trainer):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.buffer = deque(maxlen=MOST)

    def step(self, group):
        old = self.buffer[0] if self.buffer else group
        self.buffer.append(group)
        return super().step(old if (self.state.progress.step + 1) % EVERY == 0 else group)


if __name__ == "__main__":
    raise SystemExit(main(trainer=Replaying))
