"""accum-grads-lost: the trainer saves in the middle of an accumulation window, without the gradients.

Wrong: saves are counted in micro-batches, and the position in the data with them. What the window had summed up until
    then is in no state dict: the first update after the resume is made of the rest of it. The samples are lost.
Evidence: HF#22143 c
Codes: data-skipped
Caught by: test_one_rank_mid_epoch test_resume
Args: --save-every 13
Family: optimizer and schedule
"""

from tinymodels.train import Data, Trainer, main


class ByMicroBatch(Data):
    def used(self, group):  # its position has been moved already, with each micro-batch
        if self.position >= len(self.tokens):
            self.epoch, self.position = self.epoch + 1, 0

    def groups(self):
        whole = self.stride
        self.stride -= self.position % whole  # the rest of a window that was begun
        for group in super().groups():
            self.stride = whole
            yield group


class SavesByMicroBatch(Trainer):
    def micro_step(self, rows, group):
        taken = self.data.position // self.data.chunk  # in this epoch
        if taken and taken % self.config.save_every == 0 and self.saved != self.state.progress.step:
            super().save()
        share = super().micro_step(rows, group)
        self.data.position += self.data.chunk
        return share

    def save(self):
        if self.finished():
            super().save()


if __name__ == "__main__":
    raise SystemExit(main(trainer=SavesByMicroBatch, data=ByMicroBatch))
