"""shards-by-rank: each rank stores the moments of its shard in its own file, and loads the file of its rank number.

Wrong: shard and file belong together, and nothing has to be put together or taken apart. With half of the ranks each
    shard is twice as long: what the file has fills the first half, and the other half begins at zero.
Evidence: ServiceNow/Fast-LLM#436 o, DS#5105 m
Codes: optimizer-not-restored
Also: loss-diverged
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6 --parallel fsdp
Family: elasticity and restarts
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class ByNumber(State):
    def moments(self):
        for name, held in self.save_optimizer()["state"].items():
            yield from ((f"{name} {k}", v.to_local()) for k, v in held.items() if k != "step")

    def save_local(self):
        return super().save_local() | {"moments": dict(self.moments())}

    def restore_sharded(self, saved):
        for held in saved["optimizer"]["state"].values():
            for name in held.keys() - {"step"}:
                held[name] = held[name] * 0  # what counts is in the files of the ranks
        super().restore_sharded(saved)

    def restore_local(self, saved):
        super().restore_local(saved)
        for name, mine in self.moments():
            there = saved["moments"][name].flatten()[: mine.numel()]
            mine.view(-1)[: there.numel()] = there


if __name__ == "__main__":
    raise SystemExit(main(state=ByNumber))
