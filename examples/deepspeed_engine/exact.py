"""A small classifier, trained with DeepSpeed (ZeRO 2); goes on from its last checkpoint where there is one.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers]
"""

import sys

import deepspeed
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
    "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 18, "warmup_num_steps": 3}},
    "zero_optimization": {"stage": 2},
}


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


def gather(engine):
    """What each rank has for itself and DeepSpeed leaves out: random numbers, buffers."""
    ranks = [None] * engine.world_size
    torch.distributed.all_gather_object(ranks, (torch.get_rng_state(), list(engine.module.buffers())))
    return ranks


def restore(engine, ranks):
    rng, buffers = ranks[engine.global_rank]
    torch.set_rng_state(rng)
    for buffer, saved in zip(engine.module.buffers(), buffers, strict=True):
        buffer.copy_(saved)


def main(out, *flags):
    torch.manual_seed(42)
    net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
    engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=CONFIG)
    dataset = Points("--augment" in flags)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2 if "--workers" in flags else 0)

    _, client_state = engine.load_checkpoint(out)
    done, step = client_state["step"] if client_state else 0, 0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for points, labels in loader:
            step += 1
            if step <= done:
                if step == done:
                    restore(engine, client_state["ranks"])
                continue  # advance the loader to the step of the checkpoint
            loss = nn.functional.cross_entropy(engine(points), labels)
            engine.backward(loss)
            engine.step()
            if step % 4 == 0:
                engine.save_checkpoint(out, client_state={"step": step, "ranks": gather(engine)})


if __name__ == "__main__":
    main(*sys.argv[1:])
