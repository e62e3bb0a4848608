"""optim-by-position: a resumed run builds its optimizer groups in another order, and the state is loaded by position.

Wrong: a fused kernel takes weights of one shape together. A fresh run lists them as the model does, a resumed one as
    the checkpoint does, which is sorted by name. A plain `load_state_dict` assigns by position and compares no names,
    so weights of equal shape get each other's moments. Weights, rates and shapes are all right.
Evidence: PT#1489 o, PT#6031 m
Codes: optimizer-not-restored
Caught by: test_one_rank_mid_epoch test_resume
Family: optimizer and schedule
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import Trainer, main


class ByShape(Trainer):
    def build(self):
        state = super().build()
        names = {weight: name for name, weight in self.model.named_parameters()}
        resumed = self.checkpoints.newest_valid() is not None
        for group in state.optimizer.param_groups:
            listed = sorted(group["params"], key=names.get) if resumed else group["params"]
            group["params"] = sorted(listed, key=lambda weight: tuple(weight.shape))
        return state


class ByPosition(State):
    """Saves as `optimizer.state_dict` does: under numbers, in the order of the groups."""

    def numbers(self):
        names = {weight: name.removeprefix("module.") for name, weight in self.model.named_parameters()}
        weights = (weight for group in self.optimizer.param_groups for weight in group["params"])
        return {names[weight]: str(number) for number, weight in enumerate(weights)}

    def save_optimizer(self):
        saved = super().save_optimizer()
        return saved | {"state": {number: saved["state"][name] for name, number in self.numbers().items()}}

    def restore_optimizer(self, saved):
        named = {name: saved["state"][number] for name, number in self.numbers().items()}
        super().restore_optimizer(saved | {"state": named})


if __name__ == "__main__":
    raise SystemExit(main(trainer=ByShape, state=ByPosition))
