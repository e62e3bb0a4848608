"""weight-decay-reset: weight decay follows a separate schedule, which restarts with each process.

Wrong: the learning rate has a scheduler with a state; weight decay has three lines in the training loop and a counter
    that nobody saves. The optimizer brings the right value back, and the loop overwrites it.
Evidence: AM#3882 c, AM#3883 m, MLM#7468 o
Codes: options-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: optimizer and schedule
"""

from tinymodels.train import Trainer, main


class Decaying(Trainer):
    taken = 0  # steps of this process

    def step(self, group):
        for options in self.state.optimizer.param_groups[:1]:  # the matrices
            options["weight_decay"] = self.config.weight_decay * self.taken / self.data.steps
        self.taken += 1
        return super().step(group)


if __name__ == "__main__":
    raise SystemExit(main(trainer=Decaying))
