"""replicas-by-loss: the trainer compares replicas only by their losses.

Wrong: to compare one number is cheaper than to compare all weights. But it is the mean over the ranks, equal on all of
    them whatever they hold. The check has passed at every step of every run.
Evidence: TT#166 c
Codes: corruption-accepted corruption-saved
Caught by: test_replica_divergence
Equivalent: test_replicas_agree (nothing is corrupted)
Args: --check-replicas 5
Family: replicas
"""

from tinymodels.train import Trainer, main


class ComparesLosses(Trainer):
    def compare_replicas(self):
        self.world.require_same("the loss", self.evidence["loss"])


if __name__ == "__main__":
    raise SystemExit(main(trainer=ComparesLosses))
