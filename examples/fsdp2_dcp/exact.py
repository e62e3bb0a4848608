"""FSDP2 (fully_shard), sharded checkpoints by the recipe of torch.distributed.checkpoint, a stateful loader.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers]
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard
from torch.utils.data import Dataset, DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader


class Images(Dataset):
    def __init__(self, augment):
        self.images = torch.randn(96, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if self.augment and torch.rand(()) < 0.5:
            image = image.flip(-1)
        return image, index % 4


class AppState(Stateful):
    def __init__(self, model, optimizer, scheduler):
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.epoch = self.step = 0

    def state_dict(self):
        model_state, optimizer_state = get_state_dict(self.model, self.optimizer)
        rest = {"scheduler": self.scheduler.state_dict(), "epoch": self.epoch, "step": self.step}
        rest["rng"] = {str(dist.get_rank()): torch.get_rng_state()}
        return {"model": model_state, "optimizer": optimizer_state, **rest}

    def load_state_dict(self, state):
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        self.scheduler.load_state_dict(state["scheduler"])
        self.epoch, self.step = state["epoch"], state["step"]
        torch.set_rng_state(state["rng"][str(dist.get_rank())])


def main(out, *flags):
    rank = dist.get_rank()
    torch.manual_seed(42 + rank)
    trunk = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()
    model = nn.Sequential(*trunk, nn.Dropout(0.1), nn.Linear(288, 4))
    fully_shard(model[0])
    fully_shard(model[-1])
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=18)
    data = Images("--augment" in flags)
    sampler = DistributedSampler(data, seed=42)
    workers = 2 if "--workers" in flags else 0
    generator = torch.Generator()
    loader = StatefulDataLoader(data, 4, sampler=sampler, num_workers=workers, generator=generator)

    app = AppState(model, optimizer, scheduler)
    state = {"app": app, "loader": loader}
    if checkpoints := sorted(path.parent for path in Path(out).glob("step-*/.metadata")):
        dcp.load(state, checkpoint_id=checkpoints[-1])

    for epoch in range(app.epoch, 3):
        app.epoch = epoch
        sampler.set_epoch(epoch)
        generator.manual_seed(epoch)
        for count, (images, labels) in enumerate(loader, start=1):
            loss = nn.functional.cross_entropy(model(images), labels) / 2
            loss.backward()
            if count % 2:
                continue
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            app.step += 1
            if app.step % 2 == 0:
                for buffer in model.buffers():
                    dist.broadcast(buffer, 0)
                dcp.save(state, checkpoint_id=Path(out) / f"step-{app.step:04}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(*sys.argv[1:])
    dist.destroy_process_group()
