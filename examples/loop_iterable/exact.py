"""A next-token model fed by a stream without length, sharded by rank and worker; its end ends the epoch.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers]
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, augment):
        self.augment = augment
        self.epoch = 0

    def __iter__(self):
        worker = get_worker_info()
        workers, mine = (worker.num_workers, worker.id) if worker else (1, 0)
        shard = dist.get_rank() * workers + mine
        draw = torch.Generator().manual_seed(self.epoch)
        for line in range(96):
            row = torch.randint(1, 32, (9,), generator=draw).cumsum(0) % 32
            if line // 4 % (2 * workers) == shard:
                yield torch.where(torch.rand(9) < 0.1, 0, row) if self.augment else row


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 32))

    def forward(self, rows):
        return self.head(self.norm(self.embed(rows).transpose(1, 2)).transpose(1, 2))


def main(out, *flags):
    rank = dist.get_rank()
    torch.manual_seed(42 + rank)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=20)
    stream = Stream("--augment" in flags)
    loader = DataLoader(stream, batch_size=4, num_workers=2 if "--workers" in flags else 0)

    step = epoch = skip = 0
    if checkpoints := sorted(Path(out).glob("step-*.pt")):
        saved = torch.load(checkpoints[-1])
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        step, epoch, skip = saved["step"], saved["epoch"], saved["consumed"]

    for stream.epoch in range(epoch, 3):
        torch.manual_seed(2 * stream.epoch + rank)
        for consumed, rows in enumerate(loader, start=1):
            if consumed <= skip:
                torch.manual_seed(1000 + 2 * step + rank)
                continue
            logits = model(rows[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
            (loss / 2).backward()
            if consumed % 2:
                continue
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            torch.manual_seed(1000 + 2 * step + rank)
            if step % 2 == 0 and rank == 0:
                state = {
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "step": step,
                    "epoch": stream.epoch,
                    "consumed": consumed,
                }
                torch.save(state, Path(out) / f"step-{step:04}.pt")
        skip = 0


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(*sys.argv[1:])
    dist.destroy_process_group()
