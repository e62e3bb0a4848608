"""A tiny GAN: two models, two optimizers and two schedulers, alternate steps, three losses an iteration.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers]
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Rings(Dataset):
    def __init__(self, augment):
        angle = torch.linspace(0, 6.28, 96)
        self.points = torch.stack([angle.cos(), angle.sin()], 1)
        self.augment = augment

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index] + (0.05 * torch.randn(2) if self.augment else 0)


def main(out, *flags):
    rank = dist.get_rank()
    torch.manual_seed(42 + rank)
    net_g = nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
    net_d = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(32, 1))
    net_g, net_d = DistributedDataParallel(net_g), DistributedDataParallel(net_d)
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=4e-3, betas=(0.5, 0.999))
    scheduler_g = torch.optim.lr_scheduler.LambdaLR(optimizer_g, lambda i: 1 - i / 20)
    scheduler_d = torch.optim.lr_scheduler.LambdaLR(optimizer_d, lambda i: 1 - i / 20)
    data = Rings("--augment" in flags)
    sampler = DistributedSampler(data, seed=42)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2 if "--workers" in flags else 0)

    iteration = 0
    if checkpoints := sorted(Path(out).glob("gan-*.pt")):
        saved = torch.load(checkpoints[-1])
        net_g.module.load_state_dict(saved["net_g"])
        net_d.module.load_state_dict(saved["net_d"])
        optimizer_g.load_state_dict(saved["optimizer_g"])
        optimizer_d.load_state_dict(saved["optimizer_d"])
        iteration = saved["iteration"]

    for epoch in range(iteration // 6, 3):
        sampler.set_epoch(epoch)
        batches = iter(loader)
        for _ in range(iteration % 6):  # batches that the checkpoint has behind it
            next(batches)
        for real in batches:
            optimizer_d.zero_grad()
            on_real = net_d(real)
            bce(on_real, torch.ones_like(on_real)).backward()
            fake = net_g(torch.randn(len(real), 4))
            on_fake = net_d(fake.detach())
            bce(on_fake, torch.zeros_like(on_fake)).backward()
            optimizer_d.step()

            optimizer_g.zero_grad()
            on_fake = net_d(fake)
            bce(on_fake, torch.ones_like(on_fake)).backward()
            optimizer_g.step()

            scheduler_d.step()
            scheduler_g.step()
            iteration += 1
            if iteration % 2 == 0 and rank == 0:
                state = {
                    "net_g": net_g.module.state_dict(),
                    "net_d": net_d.module.state_dict(),
                    "optimizer_g": optimizer_g.state_dict(),
                    "optimizer_d": optimizer_d.state_dict(),
                    "iteration": iteration,
                }
                torch.save(state, Path(out) / f"gan-{iteration:04}.pt")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(*sys.argv[1:])
    dist.destroy_process_group()
