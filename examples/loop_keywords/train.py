"""A classifier called as models of the hub are: keyword arguments only, a nested dict of inputs.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers]
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Clicks(Dataset):
    def __init__(self, augment):
        draw = torch.Generator().manual_seed(0)
        self.words = torch.randint(1, 32, (96, 8), generator=draw)
        self.numbers = torch.randn(96, 4, generator=draw)
        self.augment = augment

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        words, numbers = self.words[index], self.numbers[index]
        if self.augment:
            words = torch.where(torch.rand(8) < 0.1, 0, words)
        text = {"ids": words, "mask": words > 0}
        return {"inputs": {"text": text, "numbers": numbers}, "labels": (numbers.sum() > 0).long()}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))

    def forward(self, *, inputs, labels):
        text = (self.embed(inputs["text"]["ids"]) * inputs["text"]["mask"].unsqueeze(-1)).mean(1)
        logits = self.head(torch.cat([text, self.norm(inputs["numbers"])], 1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main(out, *flags):
    rank = dist.get_rank()
    torch.manual_seed(42 + rank)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=18)
    data = Clicks("--augment" in flags)
    sampler = DistributedSampler(data, seed=42)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2 if "--workers" in flags else 0)

    first_epoch, skip, step = 0, 0, 0
    if checkpoints := sorted(Path(out).glob("step-*.pt")):
        saved = torch.load(checkpoints[-1])
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        first_epoch, skip, step = saved["epoch"], saved["batches"], saved["step"]

    for epoch in range(first_epoch, 3):
        sampler.set_epoch(epoch)
        batches = enumerate(loader, start=1)
        for _ in range(skip):  # batches of this epoch that the checkpoint has behind it
            next(batches)
        skip = 0
        for count, batch in batches:
            loss = model(inputs=batch["inputs"], labels=batch["labels"])["loss"]
            (loss / 2).backward()
            if count % 2:
                continue
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            if step % 2 == 0 and rank == 0:
                state = {
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "epoch": epoch,
                    "batches": count,
                    "step": step,
                }
                torch.save(state, Path(out) / f"step-{step:04}.pt")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(*sys.argv[1:])
    dist.destroy_process_group()
