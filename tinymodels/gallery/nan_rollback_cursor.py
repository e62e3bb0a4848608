"""nan-rollback-cursor: after a rollback inside the process, a cursor still has the position of the failed pass.

Wrong: the loop remembers up to which step the weights have been updated, lest one be updated twice. The rollback puts
    back what is in the checkpoint, and that is not. Until the replay has caught up, no update is applied.
Evidence: Tencent/YOLO-Master#263 m
Codes: model-not-restored optimizer-not-restored
Also: ema-not-restored corruption-saved
Caught by: test_nan[gradient-nan]
Args: --rollback-after 1
Family: not-a-number
"""

from tinymodels.train import Trainer, main


class KeepsItsCursor(Trainer):
    cursor = 0

    def update(self, loss):
        if self.state.progress.step >= self.cursor:
            super().update(loss)
            self.cursor = self.state.progress.step + 1

    def roll_back(self):
        self.bad.clear()  # it may have been an accident: the same batches again
        super().roll_back()


if __name__ == "__main__":
    raise SystemExit(main(trainer=KeepsItsCursor))
