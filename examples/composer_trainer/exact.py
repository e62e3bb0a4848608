"""A small classifier, trained with Composer's Trainer; goes on from its last checkpoint where there is one.

composer -n 2 train.py OUT [--augment] [--workers]
"""

import sys

import torch
from composer import Trainer
from composer.models import ComposerClassifier
from composer.optim import CosineAnnealingScheduler
from composer.utils import dist, reproducibility
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, augment):
        generator = torch.Generator().manual_seed(0)
        self.points, self.labels = torch.randn(96, 16, generator=generator), torch.arange(96) % 4
        self.augment = augment

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        point = self.points[index]
        if self.augment:
            point = point + 0.1 * torch.randn(len(point))
        return point, self.labels[index]


def main(out, *flags):
    reproducibility.seed_all(42)
    dataset = Points("--augment" in flags)
    net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
    trainer = Trainer(
        model=ComposerClassifier(net, num_classes=4),
        train_dataloader=DataLoader(
            dataset,
            batch_size=8,
            sampler=dist.get_sampler(dataset, shuffle=True),
            num_workers=2 if "--workers" in flags else 0,
        ),
        optimizers=torch.optim.AdamW(net.parameters(), lr=1e-2),
        schedulers=CosineAnnealingScheduler(),
        device_train_microbatch_size=4,
        max_duration="3ep",
        save_folder=out,
        save_interval="2ba",
        save_overwrite=True,
        autoresume=True,
        run_name="points",
        seed=42,
        device="cpu",
    )
    trainer.fit()


if __name__ == "__main__":
    main(*sys.argv[1:])
