"""A training loop in few lines, exact over a resume; with `--forget` a resume leaves the random numbers as they are.

Under torchrun it is a program of its own; `spawned.py` and `parent.py` start its ranks themselves.
"""

import os
import socket
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, EVERY = 10, 3


def train(out, *flags, **group):
    dist.init_process_group("gloo", **group)
    Path(out).mkdir(parents=True, exist_ok=True)
    torch.manual_seed(dist.get_rank())
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = torch.randn(STEPS, dist.get_world_size(), 8, 4, generator=torch.Generator().manual_seed(0))
    step, kept = 0, Path(out, f"rank-{dist.get_rank()}.pt")
    if kept.exists():
        step, state, moments, stream = torch.load(kept).values()
        model.load_state_dict(state)
        optimizer.load_state_dict(moments)
        if "--forget" not in flags:
            torch.set_rng_state(stream)
    while step < STEPS:
        batch = batches[step, dist.get_rank()]
        optimizer.zero_grad()
        (model(batch) - batch.sum(dim=1, keepdim=True)).square().mean().backward()
        optimizer.step()
        step += 1
        if step % EVERY == 0:
            state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "rng": torch.get_rng_state()}, kept.with_suffix(".new"))
            os.replace(kept.with_suffix(".new"), kept)
            dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


if __name__ == "__main__":
    train(*sys.argv[1:])
