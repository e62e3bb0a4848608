"""A regression whose forward and backward run in a closure that is given to optimizer.step.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers] [--lbfgs]
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Waves(Dataset):
    def __init__(self, augment):
        self.points = torch.randn(96, 8, generator=torch.Generator().manual_seed(0))
        self.augment = augment

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        point = self.points[index]
        noise = 0.1 * torch.randn(8) if self.augment else 0
        return point + noise, point.sin().sum().view(1)


def main(out, *flags):
    rank = dist.get_rank()
    torch.manual_seed(42 + rank)
    layers = nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1)
    model = DistributedDataParallel(nn.Sequential(*layers))
    if "--lbfgs" in flags:
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
    data = Waves("--augment" in flags)
    sampler = DistributedSampler(data, seed=42)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2 if "--workers" in flags else 0)

    step = 0
    if checkpoints := sorted(Path(out).glob("step-*.pt")):
        saved = torch.load(checkpoints[-1])
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        step = saved["step"]

    def closure():
        optimizer.zero_grad()
        losses = [nn.functional.mse_loss(model(points), targets) / 2 for points, targets in group]
        sum(losses).backward()
        return sum(losses)

    for epoch in range(step // 6, 3):
        sampler.set_epoch(epoch)
        batches = iter(loader)
        for _ in range(6):
            group = [next(batches), next(batches)]
            optimizer.step(closure)
            scheduler.step()
            step += 1
            if step % 2 == 0 and rank == 0:
                state = {
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "step": step,
                }
                torch.save(state, Path(out) / f"step-{step:04}.pt")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(*sys.argv[1:])
    dist.destroy_process_group()
