"""dead-peer-hang: a failed collective is retried without a limit.

Wrong: the network had hiccups, so the small exchange at the end of each step was wrapped into a loop. To a peer that
    has left for good it is no hiccup: the rank waits for it for ever, and no timeout and no monitor ends that.
Evidence: pytorch/gloo#520 c
Codes: hang
Caught by: test_rank_exits_0
Options: --timeout 45
Family: elasticity and restarts
"""

import time

from tinymodels.preemption.signals import Preemption
from tinymodels.train import main


class Persistent(Preemption):
    def asked(self):
        while True:
            try:
                return super().asked()
            except RuntimeError:
                time.sleep(1.0)


if __name__ == "__main__":
    raise SystemExit(main(preemption=Persistent))
