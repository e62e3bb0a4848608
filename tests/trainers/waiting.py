"""Two ranks that are slow once they have resumed, each in its own way; `deadlock` and `forever` never come back."""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--resumed", choices=["deadlock", "evaluate", "prepare", "write", "forever"], required=True)
parser.add_argument("--seconds", type=float, default=12.0)
args = parser.parse_args()
args.out.mkdir(parents=True, exist_ok=True)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(12, 2, 3, 4, generator=torch.Generator().manual_seed(2))
latest = args.out / "latest.pt"


def one(number):
    return number % 7


def other(number):
    return number % 5


def evaluate(until):
    """Compute in Python, which says nothing."""
    total = 0
    while time.monotonic() < until:
        total += one(total + 1)
        total += other(total + 2)
    return total


def write(until):
    """A big file, piece by piece, by somebody who waits for the disk most of the time."""
    with (args.out / "export.bin").open("wb", buffering=0) as file:
        while time.monotonic() < until:
            file.write(bytes(1 << 17))
            time.sleep(0.5)
    (args.out / "export.bin").unlink()


done = 0
if latest.exists():
    state = torch.load(latest, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    done = state["done"]
    until = time.monotonic() + args.seconds
    if rank == 1:
        if args.resumed == "deadlock":
            dist.barrier()
        elif args.resumed == "evaluate":
            evaluate(until)
        elif args.resumed == "prepare":
            loop = f"import time; t = time.monotonic() + {args.seconds}\nwhile time.monotonic() < t: pass"
            subprocess.run([sys.executable, "-c", loop], check=True)
        elif args.resumed == "write":
            write(until)
elif args.resumed == "forever" and rank == 1:
    dist.barrier()
for index in range(done, 12):
    loss = model(data[index, rank]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (index + 1) % 3 == 0:
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": index + 1}
            torch.save(state, latest.with_suffix(".tmp"))
            latest.with_suffix(".tmp").replace(latest)
        dist.barrier()
dist.destroy_process_group()
