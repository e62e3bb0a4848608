"""world-loader-anew: the trainer discards a position that another number of ranks saved, with a warning.

Wrong: the position is known to hold for the ranks that saved it, so with others the epoch begins anew, which seems the
    careful thing to do. All that it had used is used twice, and the run has more steps than its schedule.
Evidence: NVIDIA-BioNeMo/bionemo-recipes#1250 m, TT#816 m
Codes: data-replayed
Also: global-batch-changed data-reordered loss-diverged lr-schedule-off extra-state-not-restored
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.train import Data, main


class Careful(Data):
    def state_dict(self):
        return super().state_dict() | {"ranks": self.world.size}

    def load_state_dict(self, saved):
        super().load_state_dict(saved)
        if saved["ranks"] != self.world.size:
            self.world.say(f"saved by {saved['ranks']} ranks: the epoch begins anew")
            self.position = 0


if __name__ == "__main__":
    raise SystemExit(main(data=Careful))
