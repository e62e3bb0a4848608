"""notice-exits-0: after the emergency save the job exits with code 0.

Wrong: everything went well, so it says so. A scheduler takes code 0 for a job that is done, and starts it no more: the
    steps that are left are never taken.
Evidence: wandb/docs#2278 m
Codes: exited-early
Also: data-skipped
Caught by: test_preempted[aws] test_false_notice[aws]
Args: --notice aws --step-delay 0.2
Options: --notices aws
Family: preemption
"""

from tinymodels.preemption.exits import Stopped
from tinymodels.train import Trainer, main


class SaysItIsDone(Trainer):
    def save(self):
        super().save()
        if self.preemption.urgent():
            raise Stopped(f"saved after step {self.state.progress.step}: all is well")


if __name__ == "__main__":
    raise SystemExit(main(trainer=SaysItIsDone))
