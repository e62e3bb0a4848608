"""sigterm-one-rank: a rank that gets SIGTERM saves and exits without the other ranks.

Wrong: the flag is looked at after each step, as it should be, and every rank looks at its own. The signal comes to one
    rank, or to all at different steps: that one waits in the save for the others, and they for it in the next step.
Evidence: PL#20806 o, PL#20825 m
Codes: hang
Caught by: test_sigterm_one_rank
Options: --timeout 45
Star: yes
Family: preemption
"""

from tinymodels.preemption.signals import Preemption
from tinymodels.train import main


class EveryoneForThemselves(Preemption):
    def asked(self):
        return self.noticed


if __name__ == "__main__":
    raise SystemExit(main(preemption=EveryoneForThemselves))
