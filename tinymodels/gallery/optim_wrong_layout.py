"""optim-wrong-layout: the save writes the second moments by column, and the load reads them by row.

Wrong: an optimizer with a kernel of its own keeps matrices transposed, and its load forgets to turn them. All shapes
    fit. The first forward pass after a resume is exact, the first update divides by the moments of other weights.
Evidence: databricks/flashoptim#3 c
Codes: optimizer-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: optimizer and schedule
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class ColumnByColumn(State):
    def save_optimizer(self):
        saved = super().save_optimizer()
        columns = {name: own | {"exp_avg_sq": turned(own["exp_avg_sq"])} for name, own in saved["state"].items()}
        return saved | {"state": columns}

    def restore_optimizer(self, saved):
        for own in saved["state"].values():
            own["exp_avg_sq"] = own["exp_avg_sq"].reshape(own["exp_avg"].shape)
        super().restore_optimizer(saved)


def turned(moment):
    """As the kernel wants it."""
    return moment.T.contiguous() if moment.dim() == 2 else moment


if __name__ == "__main__":
    raise SystemExit(main(state=ColumnByColumn))
