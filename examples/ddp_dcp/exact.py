"""DDP in half precision, checkpoints by the recipe of torch.distributed.checkpoint, a stateful loader.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers]
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.nn.parallel import DistributedDataParallel
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
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.step = self.epoch = 0

    def state_dict(self):
        model_state, optimizer_state = get_state_dict(self.model, self.optimizer)
        rng = {str(dist.get_rank()): torch.get_rng_state()}
        counts = {"step": self.step, "epoch": self.epoch}
        return {"model": model_state, "optimizer": optimizer_state, "rng": rng, **counts}

    def load_state_dict(self, state):
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        torch.set_rng_state(state["rng"][str(dist.get_rank())])
        self.step, self.epoch = state["step"], state["epoch"]


def main(out, *flags):
    rank = dist.get_rank()
    torch.manual_seed(42 + rank)
    trunk = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()
    model = DistributedDataParallel(nn.Sequential(*trunk, nn.Dropout(0.1), nn.Linear(288, 4)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=18)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    data = Images("--augment" in flags)
    sampler = DistributedSampler(data, seed=42)
    workers = 2 if "--workers" in flags else 0
    generator = torch.Generator()
    loader = StatefulDataLoader(data, 4, sampler=sampler, num_workers=workers, generator=generator)

    planner = DefaultSavePlanner(dedup_save_to_lowest_rank=True)
    app = AppState(model, optimizer)
    state = {"app": app, "scaler": scaler, "scheduler": scheduler, "loader": loader}
    if checkpoints := sorted(path.parent for path in Path(out).glob("step-*/.metadata")):
        dcp.load(state, checkpoint_id=checkpoints[-1])

    for epoch in range(app.epoch, 3):
        app.epoch = epoch
        sampler.set_epoch(epoch)
        generator.manual_seed(epoch)
        for count, (images, labels) in enumerate(loader, start=1):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(images), labels) / 2
            scaler.scale(loss).backward()
            if count % 2:
                continue
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad()
            app.step += 1
            if app.step % 2 == 0:
                dcp.save(state, checkpoint_id=Path(out) / f"step-{app.step:04}", planner=planner)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(*sys.argv[1:])
    dist.destroy_process_group()
