"""notice-each-epoch: the flag is looked at once an epoch.

Wrong: the callback at the end of an epoch seemed the right place to save and leave. An epoch takes longer than the
    grace, so whoever is told in the middle of one has not begun to save when the node is taken away.
Evidence: goodfire-ai/spd#677 c, goodfire-ai/spd#741 c
Codes: no-emergency-checkpoint
Also: notice-ignored
Caught by: test_preempted[aws]
Args: --notice aws --step-delay 0.3 --save-every 25 --samples 1200 --epochs 2
Options: --notices aws
Family: preemption
"""

from tinymodels.train import Trainer, main


class OnceAnEpoch(Trainer):
    def train(self):
        asked = self.preemption.urgent
        self.preemption.urgent = lambda: self.data.position == 0 and asked()
        super().train()


if __name__ == "__main__":
    raise SystemExit(main(trainer=OnceAnEpoch))
