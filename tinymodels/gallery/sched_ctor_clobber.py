"""sched-ctor-clobber: the trainer builds the schedule after it has restored the optimizer.

Wrong: a schedule needs its optimizer, so it is made last. Its constructor takes its first step there and then, and
    overwrites the rates that had just been loaded: the first update after the resume has the rate of step 0.
Evidence: PT#65342 o, PT#119168 c
Codes: lr-schedule-off
Caught by: test_one_rank_mid_epoch test_resume
Star: yes
Family: optimizer and schedule
"""

from torch.optim.lr_scheduler import LambdaLR

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class BuiltLast(State):
    def restore_scheduler(self, saved):
        self.scheduler = LambdaLR(self.optimizer, self.scheduler.lr_lambdas)
        super().restore_scheduler(saved)


if __name__ == "__main__":
    raise SystemExit(main(state=BuiltLast))
