"""notice-false-ends: a notice ends the job, whatever follows.

Wrong: who is told that the node goes saves and leaves, to be on the safe side. The recommendation to move is no order,
    and an interruption may be called off: the job has left a node that stays, and waits for another one.
Evidence: aws/karpenter-provider-aws#3954 c, aws/aws-node-termination-handler#786 c
Codes: needless-restart
Caught by: test_false_notice[aws] test_withdrawn_notice[aws]
Args: --notice aws --step-delay 0.2
Options: --notices aws
Family: preemption
"""

from tinymodels.train import Trainer, main


class LeavesAtOnce(Trainer):
    def save(self):
        super().save()
        if self.preemption.urgent():
            self.leave()


if __name__ == "__main__":
    raise SystemExit(main(trainer=LeavesAtOnce))
