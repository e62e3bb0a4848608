"""A plain loop of DistributedDataParallel that starts its ranks itself; goes on from its last checkpoint.

python train.py OUT [--augment] [--workers]
"""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Numbers(Dataset):
    def __init__(self, augment):
        self.x = torch.randn(96, 8, generator=torch.Generator().manual_seed(0))
        self.augment = augment

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        x, y = self.x[index], self.x[index].sum(0, keepdim=True)
        if self.augment:
            x = x + 0.1 * torch.randn(len(x))
        return x, y


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(rank, world, port, out, flags):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    train(rank, world, out, flags)
    dist.barrier()
    dist.destroy_process_group()


def train(rank, world, out, flags):
    torch.manual_seed(42)
    net = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=18)
    data = Numbers("--augment" in flags)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2 if "--workers" in flags else 0)
    newest, step, first, done = f"{out}/last.pt", 0, 0, 0
    if os.path.exists(newest):
        state = torch.load(newest)
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        step, first, done = state["step"], state["epoch"], state["done"]
        torch.set_rng_state(state["rng"][rank])
    for epoch in range(first, 3):
        sampler.set_epoch(epoch)
        for place, (x, y) in enumerate(loader):
            if epoch == first and place < done:
                continue
            loss = torch.nn.functional.mse_loss(model(x), y) / 2
            loss.backward()
            if place % 2 == 0:
                continue
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            step += 1
            if step % 2 == 0:
                rng = [None] * world
                dist.all_gather_object(rng, torch.get_rng_state())
                if rank == 0:
                    state = {
                        "model": net.state_dict(), "optimizer": optimizer.state_dict(),
                        "scheduler": scheduler.state_dict(), "rng": rng,
                        "step": step, "epoch": epoch, "done": place + 1,
                    }  # fmt: skip
                    torch.save(state, f"{newest}.new")
                    os.replace(f"{newest}.new", newest)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    mp.spawn(run, args=(2, free_port(), sys.argv[1], sys.argv[2:]), nprocs=2)
