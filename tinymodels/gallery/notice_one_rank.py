"""notice-one-rank: the rank that learns of the notice saves, and the others do not.

Wrong: one process of the node asks the metadata service, which is enough, and every rank looks at its own flag. A save
    takes all ranks: that one waits in it for the others, and they for it in the next step, until the node is gone.
Evidence: kyutai-labs/pocket-tts#277 m, PL#20806 o
Codes: no-emergency-checkpoint
Also: hang notice-ignored
Caught by: test_preempted[aws]
Args: --notice aws --step-delay 0.2
Options: --notices aws --timeout 90
Star: yes
Family: preemption
"""

from tinymodels.preemption.signals import Preemption
from tinymodels.train import main


class OwnFlag(Preemption):
    def urgent(self):
        return self.watch is not None and self.watch.stands


if __name__ == "__main__":
    raise SystemExit(main(preemption=OwnFlag))
