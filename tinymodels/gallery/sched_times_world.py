"""sched-times-world: the schedule steps once per rank, and its length is scaled to match.

Wrong: the schedule is written for one process, so with several it is stepped once for each. Its count means nothing
    without their number: restored with half of the ranks, it is at twice the step, and the rate is half-way down.
Evidence: ACC#2142 c, HF#24088 m, ST#3045 m
Codes: lr-schedule-off
Also: loss-diverged
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from torch.optim.lr_scheduler import LambdaLR

from tinymodels.train import Trainer, main


class ForEachRank(LambdaLR):
    ranks = 1

    def step(self, epoch=None):
        for _ in range(self.ranks):
            super().step(epoch)


class TimesWorld(Trainer):
    def build(self):
        state, ranks = super().build(), self.world.size
        ((factor, _),) = {tuple(state.scheduler.lr_lambdas)}
        state.scheduler = ForEachRank(state.optimizer, lambda count: factor(count // ranks))
        state.scheduler.ranks = ranks
        return state


if __name__ == "__main__":
    raise SystemExit(main(trainer=TimesWorld))
