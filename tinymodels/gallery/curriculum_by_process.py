"""curriculum-by-process: the curriculum moves on every 25 steps that the process has counted.

Wrong: a new process derives the stage itself from the step, so that the first steps after a resume are right. From then
    on the process counts for itself, and no checkpoint has that count: each resume moves all later stages. Nothing
    differs until the next stage is due.
Evidence: mujocolab/mjlab#484 m, HorizonRobotics/alf#1309 m
Codes: loss-diverged
Caught by: test_one_rank_mid_epoch test_resume test_twice
Family: counters
"""

from tinymodels.numbers.precision import autocast
from tinymodels.train import Trainer, main

EVERY = 25


class Counting(Trainer):
    counted, stage = 0, -1

    def step(self, group):
        if self.stage < 0:
            self.stage = self.state.progress.step // EVERY
        self.counted += 1
        if self.counted % EVERY == 0:
            self.stage += 1
        return super().step(group)

    def micro_step(self, rows, group):
        with autocast(self.config, self.world):
            total = self.model(rows.to(self.world.device)) * (1.0 + self.stage / 10)
        share = total / (group.samples * self.config.context)
        self.state.scaler.scale(share * self.world.size).backward()
        return share.detach()


if __name__ == "__main__":
    raise SystemExit(main(trainer=Counting))
