"""notice-in-handler: the handler of the scheduler's signal saves.

Wrong: Slurm sends USR1 to the processes of one node, and the handler saves at once, in the middle of whatever the rank
    is in. A save takes all ranks, and those of the other nodes have had no signal: they are in the middle of a step.
Evidence: PL#21406 o, ComputationalRadiationPhysics/picongpu#3642 m
Codes: no-emergency-checkpoint
Also: hang notice-ignored
Caught by: test_preempted[slurm]
Args: --step-delay 0.2 --timeout 30
Good args: --notice usr1 --step-delay 0.2 --timeout 30
Options: --notices slurm --timeout 120
Nodes: 2
Family: preemption
"""

import signal

from tinymodels.train import Trainer, main


class SavesAtOnce(Trainer):
    def train(self):
        signal.signal(signal.SIGUSR1, lambda number, frame: self.save())
        super().train()


if __name__ == "__main__":
    raise SystemExit(main(trainer=SavesAtOnce))
