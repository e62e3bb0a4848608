"""silent-scratch: if there is no checkpoint, the run starts at its first step without a message.

Wrong: a first launch finds none, and that must work. So must a volume that is not mounted, or a path with a slip of the
    pen, and there it costs the whole run: nothing remembers that there have been checkpoints.
Evidence: facebookresearch/metaseq#602 o
Codes: restarted-from-scratch
Caught by: test_hidden_checkpoints
Star: yes
Family: publishing and keeping checkpoints
"""

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.train import main


class TakesItEasy(Checkpoints):
    def may_start_from_scratch(self):
        return True


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=TakesItEasy))
