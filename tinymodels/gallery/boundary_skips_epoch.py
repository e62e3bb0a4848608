"""boundary-skips-epoch: the checkpoint at the end of an epoch has an exhausted loader, from which the next epoch reads.

Wrong: the loader says how much of it is used up, the trainer which epoch comes next; each is right. But restored, the
    loader has nothing to give to that epoch, which is over at once. The run ends early, with exit code 0.
Evidence: verl-project/verl#7401 o, meta-pytorch/data#1437 c
Codes: data-skipped
Also: exited-early
Caught by: test_epoch_boundary
Equivalent: test_one_rank_mid_epoch test_resume test_middle_of_save (in mid-epoch the loader is not exhausted)
Family: position in the data
"""

from tinymodels.train import Data, main


class Exhaustible(Data):
    given = 0  # samples that the loader has given, in its epoch

    def used(self, group):
        self.given = self.position + group.samples
        super().used(group)

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.given}

    def groups(self):
        yield from super().groups()
        if self.position:  # there was nothing left to give
            self.epoch, self.position = self.epoch + 1, 0


if __name__ == "__main__":
    raise SystemExit(main(data=Exhaustible))
