"""A small DDP trainer with an exact resume, as somebody else might write it: torch.save by rank, one file a step."""

import argparse
import os
import random
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Numbers(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(count, 8, generator=generator)
        self.y = self.x.sum(dim=1, keepdim=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
        )

    def forward(self, x):
        return self.layers(x)


def save(out, rank, step, epoch, done, model, optimizer, scheduler):
    state = {
        "step": step, "epoch": epoch, "done": done, "model": model.state_dict(),
        "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
        "torch": torch.get_rng_state(), "python": random.getstate(),
    }  # fmt: skip
    final = out / f"step-{step}-rank-{rank}.pt"
    torch.save(state, final.with_suffix(".tmp"))
    os.replace(final.with_suffix(".tmp"), final)
    dist.barrier()


def newest(out, world):
    steps = sorted(int(path.name.split("-")[1]) for path in out.glob("step-*-rank-0.pt"))
    whole = [s for s in steps if all((out / f"step-{s}-rank-{r}.pt").exists() for r in range(world))]
    return whole[-1] if whole else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--save-every", type=int, default=4)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    random.seed(rank)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    data = Numbers(80)
    sampler = DistributedSampler(data, seed=7)
    loader = DataLoader(data, batch_size=4, sampler=sampler, generator=torch.Generator().manual_seed(3))
    step, first_epoch, skip = 0, 0, 0
    if (found := newest(args.out, world)) is not None:
        state = torch.load(args.out / f"step-{found}-rank-{rank}.pt", weights_only=True)
        step, first_epoch, skip = state["step"], state["epoch"], state["done"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["torch"])
        kind, words, gauss = state["python"]
        random.setstate((kind, tuple(words), gauss))
    print(f"rank {rank} begins after step {step}", flush=True)
    for epoch in range(first_epoch, args.epochs):
        sampler.set_epoch(epoch)
        for done, (x, y) in enumerate(loader, start=1):
            if done <= skip:
                continue
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % args.save_every == 0:
                save(args.out, rank, step, epoch, done, model, optimizer, scheduler)
        skip = 0
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
