"""last-weights-exported: the export at the end holds the last weights, and facts about the process that wrote it.

Right: a launch that resumed started at another step and has other random streams; that it says so is no loss.
Silent in: test_one_rank_mid_epoch test_resume test_twice
"""

import torch

from tinymodels.train import Trainer, main


class Exporting(Trainer):
    start_step = 0

    def resume(self, newest):
        super().resume(newest)
        self.start_step = self.state.progress.step

    def run(self):
        super().run()
        if self.world.leads and self.saved:
            stream = torch.Generator().manual_seed(self.start_step)
            facts = {"start_step": self.start_step, "rng_state": stream.get_state()}
            weights = {name: weight.detach() for name, weight in self.unwrapped.named_parameters()}
            torch.save({"model": weights, **facts}, self.config.out / "final.pt")


if __name__ == "__main__":
    raise SystemExit(main(trainer=Exporting))
