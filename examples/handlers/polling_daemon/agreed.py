"""A small network. The ranks agree after each step whether any of them has the file of the daemon, and then save.

torchrun --nproc-per-node 1 agreed.py OUT FLAG
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, SAVE_EVERY = 3, 10


def told(flag):
    found = torch.tensor(int(os.path.exists(flag)))
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return bool(found)


def save(path, model, optimizer, epoch, batch):
    if dist.get_rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "batch": batch}
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    dist.barrier()


def main(out, flag):
    dist.init_process_group("gloo")
    torch.manual_seed(42)
    x = torch.randn(160, 8)
    dataset = TensorDataset(x, x.sum(1, keepdim=True))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler, generator=torch.Generator())
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    path, first, done = Path(out) / "checkpoint.pt", 0, 0
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, done = state["epoch"], state["batch"]
    for epoch in range(first, EPOCHS):
        sampler.set_epoch(epoch)
        for batch, (x, y) in enumerate(loader, 1):
            if epoch == first and batch <= done:
                continue
            time.sleep(0.3)  # a larger model
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            if batch % SAVE_EVERY == 0:
                save(path, model, optimizer, epoch, batch)
            if told(flag):
                save(path, model, optimizer, epoch, batch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
