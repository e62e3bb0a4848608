"""remainder-first: the resume cuts the rest of its epoch into batches from the end, so that the first one is short.

Wrong: batches are cut anew from the samples that are left, and the short batch comes where it is least trouble to the
    code. The streams are restored; under a batch of another shape, dropout draws otherwise from the first step on.
Evidence: wyim-pgl/transgenic#53 o
Codes: data-reordered
Caught by: test_one_rank_mid_epoch test_resume
Equivalent: test_epoch_boundary (a whole epoch is cut from its beginning)
Family: position in the data
"""

from tinymodels.train import Data, main


class CutsFromTheEnd(Data):
    def remaining(self):
        batches = super().remaining()
        return batches[-1:] + batches[:-1] if self.resumed else batches

    resumed = False

    def load_state_dict(self, saved):
        super().load_state_dict(saved)
        self.resumed = self.position > 0

    def used(self, group):
        super().used(group)
        self.resumed = False


if __name__ == "__main__":
    raise SystemExit(main(data=CutsFromTheEnd))
