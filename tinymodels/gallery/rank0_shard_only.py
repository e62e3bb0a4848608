"""rank0-shard-only: only rank 0 saves its loader, and every rank loads that one.

Wrong: a loader's state names the shard that it reads, and it is kept in the part of the checkpoint that rank 0 writes
    for all. After a resume every rank reads the shard of rank 0, and nobody those of the others.
Evidence: ST#2986 m
Codes: data-replayed data-skipped
Also: data-reordered
Caught by: test_one_rank_mid_epoch test_resume
Family: position in the data
"""

from dataclasses import replace

from tinymodels.train import Data, main


class Sharded(Data):
    def state_dict(self):
        return super().state_dict() | {"shard": self.world.rank}

    def load_state_dict(self, saved):
        super().load_state_dict(saved)
        self.world = replace(self.world, rank=saved["shard"])


if __name__ == "__main__":
    raise SystemExit(main(data=Sharded))
