"""One process that takes its rows itself, adds noise to them, and resumes exactly; or loses what it is told to."""

import argparse
import os
from pathlib import Path

import numpy
import torch

ROWS, WIDTH, BATCH, WINDOW = 120, 12, 4, 2

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--of", choices=["tensor", "memmap", "array"], default="tensor")
parser.add_argument("--lose", choices=["streams", "micro-batch", "shape"])
args = parser.parse_args()

torch.manual_seed(1)
data = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2))
tokens = args.out / "tokens.bin"
if not tokens.exists():
    args.out.mkdir(parents=True, exist_ok=True)
    numpy.random.default_rng(0).random(ROWS + WIDTH, dtype=numpy.float32).tofile(tokens)


def rows(index):
    if args.of == "tensor":
        taken = data[index]
    else:
        # A memory map is opened for each batch anew, so that it does not grow.
        stream = numpy.memmap(tokens, dtype=numpy.float32, mode="r")
        stream = stream if args.of == "memmap" else numpy.array(stream)
        taken = torch.stack([torch.from_numpy(stream[at : at + WIDTH].copy()) for at in index.tolist()])
    return taken + 0.1 * torch.randn_like(taken)


model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
latest = args.out / "latest.pt"
epoch, at, size = 0, 0, BATCH
if latest.exists():
    state = torch.load(latest, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    epoch, at = state["epoch"], state["at"]
    if args.lose != "streams":
        torch.set_rng_state(state["rng"])
    if args.lose == "micro-batch":
        at += BATCH
    if args.lose == "shape":
        size = BATCH // 2  # of the first window alone
while epoch < 2:
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(epoch))
    while at < ROWS:
        for _ in range(WINDOW):
            if at < ROWS:
                (model(rows(order[at : at + size])).square().mean() / WINDOW).backward()
                at += size
        size = BATCH
        optimizer.step()
        optimizer.zero_grad()
        if at // (BATCH * WINDOW) % 4 == 0 and at < ROWS:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "at": at}
            torch.save(state | {"rng": torch.get_rng_state()}, latest.with_suffix(".tmp"))
            os.replace(latest.with_suffix(".tmp"), latest)
    epoch, at = epoch + 1, 0
