"""save-error-fatal: one failed write ends the run, and its leftover ends each later run too.

Wrong: a checkpoint that cannot be written is a serious matter, so the job stops; and a folder that is there already
    may hold somebody's work, so it stops there, too. The disk has long been fine, and each launch trains up to that
    save and dies of the folder, until a person removes it.
Evidence: rwth-i6/returnn#1829 o
Codes: crash-loop
Also: needless-restart
Caught by: test_transient_error test_write_error
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class Strict(Checkpoints):
    def sweep(self):
        pass

    def save(self, step, state):
        self.settle()
        self.attempt(step, state)


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=Strict))
