"""A small network, trained by Ray Train on two workers; the run in OUT goes on from its last checkpoint.

python train.py OUT [--augment] [--workers]
"""

import os
import sys
import tempfile

import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, augment):
        generator = torch.Generator().manual_seed(0)
        self.points = torch.randn(96, 16, generator=generator)
        self.labels = torch.randint(4, (96,), generator=generator)
        self.augment = augment

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        point = self.points[index]
        if self.augment:
            draws = torch.Generator().manual_seed(self.epoch * len(self) + index)
            point = point + 0.1 * torch.randn(16, generator=draws)
        return point, self.labels[index]


def train_loop(config):
    torch.manual_seed(42)
    layers = nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)
    model = prepare_model(nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 18)
    workers = 2 if config["workers"] else 0
    loader = DataLoader(Points(config["augment"]), batch_size=4, shuffle=True, num_workers=workers)
    loader = prepare_data_loader(loader)
    step = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as path:
            state = torch.load(os.path.join(path, "state.pt"))
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        step = state["step"]
    for epoch in range(step // 6, 3):
        loader.sampler.set_epoch(epoch)
        loader.dataset.epoch = epoch
        for i, (points, labels) in enumerate(loader):
            if 12 * epoch + i < 2 * step:
                continue
            torch.manual_seed(12 * epoch + i)
            loss = nn.functional.cross_entropy(model(points), labels) / 2
            loss.backward()
            if i % 2 == 0:
                continue
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            if step % 2:
                continue
            with tempfile.TemporaryDirectory() as path:
                checkpoint = None
                if ray.train.get_context().get_world_rank() == 0:
                    state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                    state |= {"scheduler": scheduler.state_dict(), "step": step}
                    torch.save(state, os.path.join(path, "state.pt"))
                    checkpoint = ray.train.Checkpoint.from_directory(path)
                ray.train.report({"loss": loss.item(), "step": step}, checkpoint=checkpoint)
                ray.train.get_all_reported_checkpoints()


if __name__ == "__main__":
    out, *flags = sys.argv[1:]
    ray.init(num_cpus=2, object_store_memory=2**27, include_dashboard=False)
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"augment": "--augment" in flags, "workers": "--workers" in flags},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(name="points", storage_path=os.path.abspath(out)),
    )
    trainer.fit()
