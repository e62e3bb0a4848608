"""orphans: each rank starts a monitor in a separate session, which outlives the rank.

Wrong: it is ended when the trainer ends, in good order, and it has its own session so that Ctrl-C does not strike it.
    A rank that is killed ends nobody, and the launcher knows only its ranks: monitors pile up, and hold devices.
Evidence: GaTech-RL2/EgoVerse#682 p
Codes: orphans
Caught by: test_one_rank_mid_epoch
Family: elasticity and restarts
"""

import subprocess
import sys

from tinymodels.train import Trainer, main

MONITOR = "import os, time\nfor _ in range(360): os.getloadavg(); time.sleep(10)"


class Monitored(Trainer):
    def run(self):
        monitor = subprocess.Popen([sys.executable, "-c", MONITOR], start_new_session=True)
        try:
            super().run()
        finally:
            monitor.kill()
            monitor.wait()


if __name__ == "__main__":
    raise SystemExit(main(trainer=Monitored))
