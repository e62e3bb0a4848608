"""tied-dropped: the checkpoint lacks an untied head, as if it were tied to the embedding.

Wrong: most models of this kind tie the two, and their checkpoints are smaller for it. Here head and embedding have
    the same shape and lives of their own: after a resume the embedding is in both places, and the loss jumps.
Evidence: AM#2571 c
Codes: model-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: model and average
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class TakenForTied(State):
    def save_model(self):
        return {name: tensor for name, tensor in super().save_model().items() if name != "head.weight"}

    def restore_model(self, saved):
        super().restore_model(saved | {"head.weight": saved["embed.weight"]})


if __name__ == "__main__":
    raise SystemExit(main(state=TakenForTied))
