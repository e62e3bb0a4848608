"""One process with everything that a checkpoint should hold, and an exact resume; `--lose` names what it does not
restore. For tests of what was lost, and of what is put back."""

import argparse
import os
import random
from itertools import count
from pathlib import Path

import torch

PARTS = (
    "model",
    "buffers",
    "optimizer",
    "decay",
    "lr",
    "scaler",
    "average",
    "python",
    "torch",
    "boost",
    "place",
    "epoch",
)

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--steps", type=int, default=15)
parser.add_argument("--lose", default="", help=f"with commas: {', '.join(PARTS)}")
parser.add_argument("--augment", action="store_true", help="the data set adds noise, drawn from Python's stream")
parser.add_argument(
    "--own-schedule", action="store_true", help="the rate is computed from a counter of the script"
)
args = parser.parse_args()
lost = set(filter(None, args.lose.split(",")))
assert lost <= set(PARTS), lost


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = torch.randn(40, 4, generator=torch.Generator().manual_seed(2))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index] + (random.gauss(0.0, 0.1) if args.augment else 0.0)


torch.manual_seed(1)
random.seed(1)
model = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=2)
latest = args.out / "latest.pt"
done, counted, boost = 0, 0, 1.0
if latest.exists():
    state = torch.load(latest, weights_only=True)
    own = model.state_dict()
    statistics = {name for name, _ in model.named_buffers()}
    kept = {name for name in own if ("buffers" if name in statistics else "model") in lost}
    model.load_state_dict({name: own[name] if name in kept else value for name, value in state["model"].items()})
    if "optimizer" not in lost:
        fresh = {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}
        optimizer.load_state_dict(state["optimizer"])
        if "decay" in lost:
            optimizer.param_groups[0]["weight_decay"] = 0.0
        if "lr" in lost:
            optimizer.param_groups[0]["lr"] = fresh["lr"]
    elif "lr" not in lost:
        optimizer.param_groups[0]["lr"] = state["optimizer"]["param_groups"][0]["lr"]
    done = state["done"]
    if "lr" not in lost:
        scheduler.load_state_dict(state["scheduler"])
        counted = done
    if "scaler" not in lost:
        scaler.load_state_dict(state["scaler"])
    if "average" not in lost:
        average.load_state_dict(state["average"])
    if "torch" not in lost:
        torch.set_rng_state(state["torch"])
    if "python" not in lost:
        kind, words, gauss = state["python"]
        random.setstate((kind, tuple(words), gauss))
    if "boost" not in lost:
        boost = state["boost"]
first, skip = (0 if "epoch" in lost else done // 5), (0 if {"epoch", "place"} & lost else done % 5)
epochs = count(first) if "epoch" in lost else range(first, args.steps // 5)


def batches():
    """Those of every epoch that is left, each with the rows in an order of its own."""
    for number, epoch in enumerate(epochs):
        order = torch.randperm(40, generator=torch.Generator().manual_seed(epoch)).tolist()
        rows = [order[at : at + 8] for at in range(0, 40, 8)][0 if number else skip :]
        yield from torch.utils.data.DataLoader(
            Rows(), batch_sampler=rows, generator=torch.Generator().manual_seed(3)
        )


for rows in batches():
    if args.own_schedule:
        optimizer.param_groups[0]["lr"] = 0.02 * 0.9**counted
    # No component holds what the loss is multiplied by.
    loss = model(rows).square().mean() * boost
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if not args.own_schedule:
        scheduler.step()
    average.update_parameters(model)
    boost *= 1.0625
    done, counted = done + 1, counted + 1
    if done % 3 == 0:
        state = {
            "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
            "scaler": scaler.state_dict(), "average": average.state_dict(), "torch": torch.get_rng_state(),
            "python": random.getstate(), "done": done, "boost": boost,
        }  # fmt: skip
        torch.save(state, latest.with_suffix(".tmp"))
        os.replace(latest.with_suffix(".tmp"), latest)
    if done == args.steps:
        break
