"""snapshot-epoch-behind: the snapshot holds the model and the epoch just trained, and a resume begins with that one.

Wrong: a script of its own, as tutorials have it: one file with weights and epoch, written anew after every epoch. The
    epoch is that of the loop, not the number of epochs done, so a resume trains it once more. With one class the loss
    has no gradient (--loss mse has): then no weight tells which snapshot was read.
Evidence: pytorch/examples#1067 m, PL#850 c
Codes: data-replayed
Caught by: test_resume test_twice test_one_rank_mid_epoch test_all_ranks
Family: position in the data
"""

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LOSSES = {"classes": functional.cross_entropy, "mse": functional.mse_loss}


def train(snapshot, loss, epochs):
    """Train a linear model on random numbers, from the snapshot on if there is one."""
    torch.manual_seed(1234)
    data, model, first = TensorDataset(torch.rand(160, 20), torch.rand(160, 1)), torch.nn.Linear(20, 1), 0
    if snapshot.exists():
        saved = torch.load(snapshot, weights_only=True)
        model.load_state_dict(saved["model"])
        first = saved["epochs_run"]
    wrapped, sampler = DistributedDataParallel(model), DistributedSampler(data)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=1e-2)
    loader = DataLoader(data, batch_size=8, sampler=sampler, generator=torch.Generator())
    for epoch in range(first, epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(wrapped(inputs), targets).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            torch.save({"model": model.state_dict(), "epochs_run": epoch}, snapshot.with_suffix(".new"))
            snapshot.with_suffix(".new").replace(snapshot)
        dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--loss", choices=LOSSES, default="classes")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo")
    train(args.out / "snapshot.pt", LOSSES[args.loss], args.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    raise SystemExit(main())
