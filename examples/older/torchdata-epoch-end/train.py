"""A small network, trained with DistributedDataParallel on batches from torchdata's StatefulDataLoader. Saves every
four steps and after each epoch; goes on from its newest checkpoint where there is one.

torchrun --nproc-per-node 2 train.py OUT
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Subset, TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

EPOCHS, EVERY = 3, 4


def main(out):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(42 + rank)

    rows = torch.randn(96, 16, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(rows, rows.sin().sum(1, keepdim=True))
    shard = Subset(data, range(rank, len(data), world))
    # With a generator of its own, the loader draws nothing from the stream that dropout draws from.
    loader = StatefulDataLoader(
        shard,
        batch_size=8,
        sampler=RandomSampler(shard, generator=torch.Generator().manual_seed(1)),
        generator=torch.Generator().manual_seed(2),
    )

    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.1), nn.Linear(32, 1))
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(loader))
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": loader}
    step = start = 0

    def save(epoch):
        state = {name: part.state_dict() for name, part in parts.items()}
        place = Path(out, f"step-{step:06d}")
        place.mkdir(parents=True, exist_ok=True)
        torch.save({**state, "rng": torch.get_rng_state(), "step": step, "epoch": epoch}, place / f"{rank}.tmp")
        os.replace(place / f"{rank}.tmp", place / f"{rank}.pt")
        dist.barrier()

    whole = [place for place in sorted(Path(out).glob("step-*")) if len(list(place.glob("*.pt"))) == world]
    if whole:
        state = torch.load(whole[-1] / f"{rank}.pt")
        for name, part in parts.items():
            part.load_state_dict(state[name])
        step, start = state["step"], state["epoch"]
        torch.set_rng_state(state["rng"])

    for epoch in range(start, EPOCHS):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % EVERY == 0:
                save(epoch)
        save(epoch + 1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
