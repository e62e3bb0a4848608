"""tinymodels, but it never looks for a checkpoint: it saves, and always starts from scratch."""

from tinymodels.train import Trainer, main


class Amnesiac(Trainer):
    def resume(self, newest):
        super().resume(None)


if __name__ == "__main__":
    raise SystemExit(main(trainer=Amnesiac))
