"""leftovers-cleared: a resumed launch removes what earlier ones left, once it has made as many saves as it keeps.

Wrong: it knows its own saves by the directories that they were written in, before they were renamed. So it removes all
    checkpoints, its newest one too. That takes a resume and three saves; no test of retention has both.
Evidence: HF#25136 m, ST#2989 m
Codes: crash-loop
Also: checkpoint-lost
Caught by: test_twice
Equivalent: test_one_rank_mid_epoch test_resume (nothing is resumed after the third save)
Args: --save-every 4
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class ClearedLater(Checkpoints):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.own, self.resumed = [], False

    def newest_valid(self):
        found = super().newest_valid()
        self.resumed = found is not None
        return found

    def publish(self, temporary, step):
        super().publish(temporary, step)
        self.own.append(temporary)

    def prune(self, step):
        super().prune(step)
        if self.resumed and len(self.own) == self.keep:
            self.remove([path for path in self.newest_first() if path not in self.own])


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=ClearedLater))
