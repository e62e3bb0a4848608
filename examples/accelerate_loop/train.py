"""A small classifier, trained in a loop with Accelerate; goes on from its newest checkpoint where there is one.

accelerate launch --multi_gpu --num_processes 2 train.py OUT [--augment] [--workers]
"""

import os
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, augment):
        self.points = torch.randn(96, 16, generator=torch.Generator().manual_seed(0))
        self.augment = augment

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        point = self.points[index]
        label = (point.sum() > 0).long()
        if self.augment:
            point = point + 0.1 * torch.randn(len(point))
        return point, label


def main(out, *flags):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(42)
    dataset = Points("--augment" in flags)
    loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2 if "--workers" in flags else 0)
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=3 * len(loader) // 2)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    overall_step, starting_epoch, resume_step = 0, 0, 0
    os.makedirs(out, exist_ok=True)
    dirs = [f.path for f in os.scandir(out) if f.is_dir()]
    if dirs:
        path = max(dirs, key=os.path.getctime)
        accelerator.load_state(path)
        overall_step = int(os.path.basename(path).replace("step_", ""))
        starting_epoch, resume_step = divmod(overall_step, len(loader))

    for epoch in range(starting_epoch, 3):
        model.train()
        if epoch == starting_epoch and resume_step:
            active_loader = accelerator.skip_first_batches(loader, resume_step)
        else:
            active_loader = loader
        for points, labels in active_loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(points), labels)
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            overall_step += 1
            if overall_step % 4 == 0:
                accelerator.save_state(os.path.join(out, f"step_{overall_step}"))
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
