"""skip-each-epoch: what a resume skips of its epoch is skipped of every later epoch, too.

Wrong: the number of samples to skip is an attribute of the data, set by the resume and read where an epoch begins.
    Nobody sets it back to 0.
Evidence: ACC#1451 c, allenai/open-instruct#681 m
Codes: data-skipped
Also: exited-early
Caught by: test_one_rank_mid_epoch test_resume
Equivalent: test_epoch_boundary (the checkpoint is at the end of an epoch, where nothing is skipped)
Args: --noise 0.2
Family: position in the data
"""

from tinymodels.train import Data, main


class SkipsAgain(Data):
    skip = 0

    def load_state_dict(self, saved):
        super().load_state_dict(saved)
        self.skip = self.position

    def used(self, group):
        super().used(group)
        if self.position == 0:
            self.position = self.skip


if __name__ == "__main__":
    raise SystemExit(main(data=SkipsAgain))
