"""sampler-epoch-zero: the checkpoint has the position in the epoch, but the sampler counts epochs from 0 again.

Wrong: the sampler counts the epochs that this process has begun, and shuffles by that count. In the first epoch that
    is right. After a resume in a later one, the right number of samples is skipped, in the order of the first epoch.
Evidence: ACC#4195 o, ACC#2823 o, ACC#4071 m
Codes: data-replayed data-skipped
Also: data-reordered
Caught by: test_one_rank_mid_epoch test_twice
Equivalent: test_resume test_middle_of_save test_right_after_save (the checkpoint is in the first epoch)
Star: yes
Family: position in the data
"""

from tinymodels.train import Data, main


class CountsFromZero(Data):
    first = 0  # the epoch in which this process began

    def load_state_dict(self, saved):
        super().load_state_dict(saved)
        self.first = self.epoch

    def order(self, epoch):
        return super().order(epoch - self.first)


if __name__ == "__main__":
    raise SystemExit(main(data=CountsFromZero))
