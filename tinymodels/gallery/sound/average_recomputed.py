"""average-recomputed: the average is made at the end, from weights that the trainer wrote at each save.

Right: no process holds an average, so that none can be lost: the files are there, and steps that are repeated write
    the same ones again.
Silent in: test_one_rank_mid_epoch test_resume test_twice
"""

import torch

from tinymodels.train import Trainer, main


class Recomputing(Trainer):
    @property
    def folder(self):
        return self.config.out / "weights"

    def save(self):
        super().save()
        if self.world.leads:
            self.folder.mkdir(exist_ok=True)
            weights = {name: weight.detach().clone() for name, weight in self.unwrapped.named_parameters()}
            torch.save(weights, self.folder / f"step-{self.state.progress.step:08d}.pt")

    def run(self):
        super().run()
        if self.world.leads:
            made = [torch.load(path, weights_only=True) for path in sorted(self.folder.glob("step-*.pt"))]
            average = {name: torch.stack([each[name] for each in made]).mean(0) for name in made[0]}
            torch.save(average, self.config.out / "published.pt")


if __name__ == "__main__":
    raise SystemExit(main(trainer=Recomputing))
