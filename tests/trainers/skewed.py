"""A correct DDP trainer whose rank 0 saves right after its own step, with no barrier: the usual pattern.

The names of the files in the directory `--skews` make ranks late: rank, place, seconds, and a step if it is that one
alone. A place is before (`-`) or after (`+`) the backward pass, an all-reduce of the loss, the step, or the save:
`1 -step 0.1`. `--alone` is a bug: a rank whose peer is lost goes on with its own gradients, saves what comes of them,
and ends.
"""

import argparse
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PLACES = [f"{side}{what}" for what in ("backward", "reduce", "step", "save") for side in "-+"]


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(4, 8, generator=generator), torch.randn(4, 1, generator=generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--last", type=int, default=12)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--skews", type=Path)
    parser.add_argument("--alone", action="store_true")
    args = parser.parse_args()
    names = os.listdir(args.skews) if args.skews else []
    late = {(int(rank), place, *map(int, at)): float(seconds) for rank, place, seconds, *at in map(str.split, names)}
    assert all(place in PLACES for _, place, *_ in late)

    if args.alone:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher sends it as soon as the peer is lost
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    def wait(place):
        time.sleep(late.get((rank, place), 0.0) + late.get((rank, place, step), 0.0))

    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    latest, begun = args.out / "latest.pt", 0
    if latest.exists():
        state = torch.load(latest, weights_only=True)
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun = state["step"]

    def save(step):
        args.out.mkdir(parents=True, exist_ok=True)
        state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, latest.with_suffix(".tmp"))
        os.replace(latest.with_suffix(".tmp"), latest)

    for step in range(begun + 1, args.last + 1):
        x, y = batch(step, rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        wait("-backward")
        try:
            loss.backward()
            wait("+backward")
            wait("-reduce")
            mean = loss.detach().clone()
            dist.all_reduce(mean)
        except RuntimeError:
            if not args.alone:
                raise
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
            save(step)
            return
        wait("+reduce")
        wait("-step")
        optimizer.step()
        wait("+step")
        if step % args.every == 0 or step == args.last:
            wait("-save")
            if rank == 0:
                save(step)
            wait("+save")
        if rank == 0:
            print(f"step {step} loss {mean.item() / world:.6f}", flush=True)
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
