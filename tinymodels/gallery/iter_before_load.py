"""iter-before-load: the trainer prepares the batches before it loads the saved position.

Wrong: the loader is built, and warmed up, with everything else. Then its position is restored, but the first epoch
    after a resume is read from what was made ready: row 0 of epoch 0, as many batches as were still to come.
Evidence: PrimeIntellect-ai/prime-rl#3332 m
Codes: data-replayed
Caught by: test_one_rank_mid_epoch test_resume
Family: position in the data
"""

from tinymodels.train import Data, main


class MadeReady(Data):
    ready = None

    def __init__(self, tokens, config, world):
        super().__init__(tokens, config, world)
        self.ready = self.remaining()

    def groups(self):
        yield from super().groups()
        self.ready = None

    def remaining(self):
        return self.ready or super().remaining()


if __name__ == "__main__":
    raise SystemExit(main(data=MadeReady))
