"""A small network, trained with DistributedDataParallel on one pass over a stream of datasets. Saves every two steps;
goes on from its newest checkpoint where there is one.

torchrun --nproc-per-node 2 train.py OUT
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from datasets import Dataset
from datasets.distributed import split_dataset_by_node
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchdata.stateful_dataloader import StatefulDataLoader

EVERY = 2


def main(out):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(42 + rank)

    rows = torch.randn(288, 16, generator=torch.Generator().manual_seed(0))
    stream = Dataset.from_dict({"x": rows.tolist(), "y": rows.sin().sum(1, keepdim=True).tolist()})
    stream = split_dataset_by_node(stream.to_iterable_dataset(num_shards=4).with_format("torch"), rank, world)
    # With a generator of its own, the loader draws nothing from the stream that dropout draws from.
    loader = StatefulDataLoader(stream, batch_size=8, generator=torch.Generator().manual_seed(1))

    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.1), nn.Linear(32, 1))
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=18)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": loader}
    step = 0

    def save():
        state = {name: part.state_dict() for name, part in parts.items()}
        place = Path(out, f"step-{step:06d}")
        place.mkdir(parents=True, exist_ok=True)
        torch.save({**state, "rng": torch.get_rng_state(), "step": step}, place / f"{rank}.tmp")
        os.replace(place / f"{rank}.tmp", place / f"{rank}.pt")
        dist.barrier()

    whole = [place for place in sorted(Path(out).glob("step-*")) if len(list(place.glob("*.pt"))) == world]
    if whole:
        state = torch.load(whole[-1] / f"{rank}.pt")
        for name, part in parts.items():
            part.load_state_dict(state[name])
        step = state["step"]
        torch.set_rng_state(state["rng"])

    for batch in loader:
        loss = nn.functional.mse_loss(model(batch["x"]), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        step += 1
        if step % EVERY == 0:
            save()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
