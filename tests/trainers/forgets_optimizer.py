"""tinymodels, but the optimizer starts anew: no moments, no step counts."""

from tinymodels.state import State
from tinymodels.train import main


class Forgetful(State):
    def restore_optimizer(self, saved):
        super().restore_optimizer(saved)
        self.optimizer.state.clear()


if __name__ == "__main__":
    raise SystemExit(main(state=Forgetful))
