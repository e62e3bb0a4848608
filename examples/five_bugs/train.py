"""Train a small classifier on several ranks. A run that was interrupted goes on from its newest checkpoint.

torchrun --nproc-per-node 2 train.py --out DIR
"""

import argparse
import itertools
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_data():
    """Points on a plane; the class says whether a point is in the ring."""
    draw = torch.Generator().manual_seed(0)
    points = torch.randn(240, 2, generator=draw)
    radius = points.norm(dim=1)
    return TensorDataset(points, ((radius > 0.7) & (radius < 1.5)).long())


def make_model():
    """Two hidden layers, with dropout between them."""
    return nn.Sequential(
        nn.Linear(2, 32),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(32, 2),
    )


def newest_checkpoint(out):
    """The path of the newest checkpoint, or None."""
    checkpoints = sorted(out.glob("step-*.pt"))
    return checkpoints[-1] if checkpoints else None


def save_checkpoint(out, step, model, optimizer):
    """Rank 0 saves for all."""
    if dist.get_rank() == 0:
        state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, out / f"step-{step}.pt")
    dist.barrier()


def load_checkpoint(out, model, optimizer):
    """Load the newest checkpoint and return its step; 0 if there is none."""
    path = newest_checkpoint(out)
    if path is None:
        return 0
    state = torch.load(path, weights_only=True)
    model.module.load_state_dict(state["model"])
    return state["step"]


def train(args):
    """Take the steps that are missing."""
    torch.manual_seed(1234 + dist.get_rank())
    data = make_data()
    sampler = DistributedSampler(data, shuffle=True, seed=1234)
    loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loss_function = nn.CrossEntropyLoss()

    step = load_checkpoint(args.out, model, optimizer)
    if dist.get_rank() == 0:
        print(f"training from step {step} to step {args.steps}", flush=True)

    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        for points, classes in loader:
            if step == args.steps:
                return
            loss = loss_function(model(points), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % args.save_every == 0:
                save_checkpoint(args.out, step, model, optimizer)
            if dist.get_rank() == 0 and step % 10 == 0:
                print(f"step {step}: loss {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save-every", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
