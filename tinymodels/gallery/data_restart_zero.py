"""data-restart-zero: the checkpoint lacks the position in the epoch.

Wrong: with one checkpoint an epoch nobody needs it. With more, each resume reads its epoch from the first sample on:
    a job that is interrupted often sees the head of its data again and again.
Evidence: PL#1182 c, paiml/entrenar#294 c
Codes: data-replayed
Caught by: test_one_rank_mid_epoch test_resume
Equivalent: test_epoch_boundary (the checkpoint is at the end of an epoch, where the position is 0)
Family: position in the data
"""

from tinymodels.train import Data, main


class EpochsOnly(Data):
    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, saved):
        self.epoch = saved["epoch"]


if __name__ == "__main__":
    raise SystemExit(main(data=EpochsOnly))
