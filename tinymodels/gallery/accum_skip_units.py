"""accum-skip-units: the position is counted in optimizer steps, but the resume skips that many micro-batches.

Wrong: without accumulation the two are the same. With it, the resume skips half of what was used, or a quarter: known
    data come again, the loss dips, and the epoch has more steps than it should.
Evidence: HF#5605 c, EleutherAI/gpt-neox#308 m
Codes: data-replayed
Caught by: test_one_rank_mid_epoch test_resume
Equivalent: test_epoch_boundary (the checkpoint is at the end of an epoch, where nothing is skipped)
Star: yes
Family: position in the data
"""

from tinymodels.train import Data, main


class CountsSteps(Data):
    def state_dict(self):
        return {"epoch": self.epoch, "batches": self.position // self.stride}

    def load_state_dict(self, saved):
        self.epoch, self.position = saved["epoch"], saved["batches"] * self.chunk


if __name__ == "__main__":
    raise SystemExit(main(data=CountsSteps))
