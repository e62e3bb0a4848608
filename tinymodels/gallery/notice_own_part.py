"""notice-own-part: each rank that learns of the notice saves its own part, and the others save nothing.

Wrong: every rank writes a file of its own, so nobody has to wait for anybody, and whoever is told saves at once. The
    notice came to one node: of the checkpoint there are the parts of its ranks alone, and nobody can resume from it.
Evidence: ai2cm/ace#1407 c, kyutai-labs/pocket-tts#277 m
Codes: emergency-torn
Caught by: test_preempted[aws]
Args: --notice aws --step-delay 0.3 --save-every 25 --samples 1200 --epochs 2
Options: --notices aws
Family: preemption
"""

import torch

from tinymodels.train import Trainer, main


class OwnPart(Trainer):
    def train(self):
        self.preemption.urgent = lambda: False
        super().train()

    def log(self, epoch, loss, rate):
        super().log(epoch, loss, rate)
        path = self.config.out / f"emergency-{self.world.rank}.pt"
        if self.preemption.watch.stands and not path.exists():
            parts = {"model": self.unwrapped.state_dict(), "optimizer": self.state.optimizer.state_dict()}
            torch.save({**parts, "step": self.state.progress.step}, path)


if __name__ == "__main__":
    raise SystemExit(main(trainer=OwnPart))
