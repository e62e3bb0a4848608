"""silent-scratch: where no checkpoint is found, the run begins at its first step, without a word.

Wrong: a first launch finds none, and that must work. So must a volume that is not mounted, or a path with a slip of the
    pen, and there it costs the whole run: nothing remembers that there have been checkpoints.
Evidence: facebookresearch/metaseq#602 o
Codes: restarted-from-scratch
Caught by: test_hidden_checkpoints
Star: yes
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoint import Checkpoints
from tinymodels.train import main


class TakesItEasy(Checkpoints):
    def may_start_from_scratch(self):
        return True


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=TakesItEasy))
