"""nan-rank0-decides: the trainer skips a bad step only if the loss of rank 0 is bad.

Wrong: all ranks must do the same, so rank 0 decides, by its own loss. The bad batch is another rank's; its gradients
    have been summed into everybody's by then. From the next step on every loss is bad, and every step left out.
Evidence: ecmwf/WeatherGenerator#2724 o
Codes: nonfinite-accepted poisoned-checkpoint
Also: model-not-restored exited-early
Caught by: test_not_a_number
Args: --allow-nonfinite-saves
Family: not-a-number
"""

from tinymodels.train import Trainer, main


class LeaderJudges(Trainer):
    def micro_step(self, rows, group):
        self.own = super().micro_step(rows, group)
        return self.own

    def guard(self, loss, norm):
        return not self.world.agree(bool(self.own.isfinite()))


if __name__ == "__main__":
    raise SystemExit(main(trainer=LeaderJudges))
