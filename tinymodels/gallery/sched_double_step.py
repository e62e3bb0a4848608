"""sched-double-step: a restored schedule is stepped once too often.

Wrong: loading a schedule does not touch the optimizer, so somebody steps it to be sure that the rate arrives there.
    The rate had come with the optimizer: now the schedule is one step ahead, and one more with each resume.
Evidence: THUDM/slime#1547 p
Codes: lr-schedule-off
Caught by: test_one_rank_mid_epoch test_resume
Family: optimizer and schedule
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class SteppedAgain(State):
    def restore_scheduler(self, saved):
        super().restore_scheduler(saved)
        self.scheduler.step()


if __name__ == "__main__":
    raise SystemExit(main(state=SteppedAgain))
