"""optim-not-saved: one branch of the configuration saves the model without its optimizer.

Wrong: sharded moments are awkward to save, so the branch for FSDP leaves them for later, and loads what there is. All
    tests are of the other branch. Moments and step counts begin at zero; the first updates are far too large.
Evidence: DS#7786 m
Codes: optimizer-not-restored
Also: lr-schedule-off
Caught by: test_one_rank_mid_epoch test_resume
Args: --parallel fsdp
Family: optimizer and schedule
"""

from torch.distributed.fsdp import FSDPModule

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class LeftForLater(State):
    def save_optimizer(self):
        return {} if isinstance(self.model, FSDPModule) else super().save_optimizer()

    def restore_optimizer(self, saved):
        if saved:
            super().restore_optimizer(saved)


if __name__ == "__main__":
    raise SystemExit(main(state=LeftForLater))
