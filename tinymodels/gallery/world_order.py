"""world-order: each rank gets a contiguous part of the epoch's samples, and a resume continues by count.

Wrong: each rank reads through its own piece, which keeps files together. The pieces follow from the number of ranks:
    once that changes in mid-epoch, the count is right, and stands for other samples than have been used.
Evidence: TT#816 m, NVIDIA-NeMo/Megatron-Bridge#5637 m
Codes: data-replayed data-skipped
Also: data-reordered loss-diverged
Caught by: test_shrink_and_grow
Nodes: 1:2
Args: --global-batch 32 --epochs 4 --step-delay 0.1 --save-every 7 --timeout 6
Family: elasticity and restarts
"""

from tinymodels.train import Data, main


class InPieces(Data):
    def remaining(self):
        order, ranks = self.order(self.epoch), self.world.size
        piece = -(-len(order) // ranks)
        mine = order[self.world.rank * piece :][:piece]
        share = self.chunk // ranks
        return [mine[at // ranks :][:share] for at in range(self.position, len(order), self.chunk)]


if __name__ == "__main__":
    raise SystemExit(main(data=InPieces))
