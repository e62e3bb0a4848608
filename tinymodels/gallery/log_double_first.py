"""log-double-first: the first loss after a resume is logged twice.

Wrong: the loop logs what it has when it begins, so that one sees where it resumed, and then each step. What it has is
    made by a step, the first one. The training is right; the curve has a point too many at each resume.
Evidence: MLM#6237 o
Codes: log-wrong
Caught by: test_one_rank_mid_epoch test_resume
Options: --log-regex 'step (?P<step>[0-9]+) epoch [0-9]+ loss (?P<loss>[^ ]+)'
Family: logs
"""

from tinymodels.train import Trainer, main


class SaysItTwice(Trainer):
    resumed = False

    def resume(self, newest):
        super().resume(newest)
        self.resumed = newest is not None

    def log(self, epoch, loss, rate):
        if self.resumed:
            super().log(epoch, loss, rate)
            self.resumed = False
        super().log(epoch, loss, rate)


if __name__ == "__main__":
    raise SystemExit(main(trainer=SaysItTwice))
