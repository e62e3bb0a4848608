"""epoch-replayed: the checkpoint at the end of an epoch still has the number of that epoch.

Wrong: the position goes back to 0 with the last sample, and the epoch is counted where its loop ends, which is after
    the save. A resume from there trains the finished epoch once more.
Evidence: PL#850 c
Codes: data-replayed
Caught by: test_epoch_boundary
Equivalent: test_one_rank_mid_epoch test_resume test_middle_of_save (in mid-epoch the number is right)
Family: position in the data
"""

from tinymodels.train import Data, main


class CountedLate(Data):
    def used(self, group):
        self.position = (self.position + group.samples) % len(self.tokens)

    def groups(self):
        yield from super().groups()
        self.epoch += 1


if __name__ == "__main__":
    raise SystemExit(main(data=CountedLate))
