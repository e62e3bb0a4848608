"""A trainer that survives everything, for each kind of job that the table names: no epochs, no pointer, no scheduler.

    python trainer.py OUT                                         one process, no process group
    torchrun --nproc-per-node 2 trainer.py OUT --parallel ddp     or tensor, pipeline

Each rank keeps its own files in OUT itself, each beside its checksum. Where no checkpoint is whole although all ranks
have saved before, the job ends with an error.
"""

import argparse
import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

STEPS, EVERY, KEEP, WIDTH = 32, 4, 3, 8


class Files:
    """The checkpoints of one rank, `step-<n>.<rank>.pt`, each beside its checksum; `whole` are the steps whose file is
    right. A marker remains when all of them are gone."""

    def __init__(self, out, rank):
        self.out, self.rank, self.marker = Path(out), rank, Path(out, f"began.{rank}")
        self.out.mkdir(parents=True, exist_ok=True)
        for torn in self.out.glob(f"*.{rank}.*tmp"):
            torn.unlink()
        steps = [int(path.name.split(".")[0][5:]) for path in self.out.glob(f"step-*.{rank}.pt")]
        self.whole = [step for step in sorted(steps) if self.is_whole(step)]

    def path(self, step, suffix="pt"):
        return self.out / f"step-{step}.{self.rank}.{suffix}"

    def is_whole(self, step):
        with suppress(OSError):
            return digest(self.path(step)) == self.path(step, "sha256").read_text()
        return False

    def save(self, step, state):
        for _ in range(2):  # an error of the storage may be over soon
            try:
                self.try_to_save(step, state)
                break
            except OSError as error:
                print(f"not saved: {error}", file=sys.stderr)
        else:
            return
        self.whole = [*(one for one in self.whole if one != step), step]
        while len(self.whole) > KEEP:
            old = self.whole.pop(0)
            self.path(old).unlink(missing_ok=True)
            self.path(old, "sha256").unlink(missing_ok=True)

    def try_to_save(self, step, state):
        draft, checksum = self.path(step, "tmp"), self.path(step, "sha256.tmp")
        torch.save(state, draft)
        checksum.write_text(digest(draft))
        for path in (draft, checksum):
            sync(path)
            os.replace(path, path.with_suffix("" if path is checksum else ".pt"))
        sync(self.out)
        self.marker.touch()


def sync(path):
    opened = os.open(path, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def newest(files, world):
    """The newest step that every rank has whole; 0 where none was ever saved."""
    mine = [files.whole, files.marker.exists()]
    every = [mine]
    if world > 1:
        every = [None] * world
        dist.all_gather_object(every, mine)
    common = set.intersection(*(set(whole) for whole, _ in every))
    if not common and all(began for _, began in every):
        sys.exit("there are checkpoints, and none is whole: put one back")
    return max(common, default=0)


def build(parallel, rank):
    """The model of this rank, and how it steps: a function of a batch that leaves gradients."""
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, 1))

    def loss_of(model, batch):
        return (model(batch) - batch.sum(dim=1, keepdim=True)).square().mean()

    if parallel == "tensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        parallelize_module(net, mesh, {"0": ColwiseParallel(), "3": RowwiseParallel()})
        # The ranks share the batch and what comes between; so they draw the same numbers.
        net[2].p = 0.0
    if parallel == "pipeline":
        stage = net[:2] if rank == 0 else net[2:]
        return stage, lambda batch: pipeline(stage, batch, rank)
    if parallel == "ddp":
        net = nn.parallel.DistributedDataParallel(net)

    def backward(batch):
        loss = loss_of(net, batch)
        loss.backward()
        return loss.item()

    return net, backward


def pipeline(stage, batch, rank):
    if rank == 0:
        middle = stage(batch)
        dist.send(middle.detach(), 1)
        gradient = torch.empty_like(middle)
        dist.recv(gradient, 1)
        middle.backward(gradient)
        return 0.0
    middle = torch.empty(len(batch), WIDTH)
    dist.recv(middle, 0)
    middle.requires_grad_()
    loss = (stage(middle) - batch.sum(dim=1, keepdim=True)).square().mean()
    loss.backward()
    dist.send(middle.grad, 0)
    return loss.item()


def local(value):
    """The value as plain tensors: of a sharded one, the part of this rank."""
    return value.to_local().clone() if isinstance(value, DTensor) else value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--parallel", default="none", choices=["none", "ddp", "tensor", "pipeline"])
    asked = parser.parse_args()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if asked.parallel != "none":
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, backward = build(asked.parallel, rank)
    torch.manual_seed(0 if asked.parallel == "tensor" else rank)
    names = dict(model.named_parameters())
    optimizer = torch.optim.SGD(names.values(), lr=0.01, momentum=0.9)
    own = rank if asked.parallel == "ddp" else 0
    batches = torch.randn(STEPS, world, 8, WIDTH, generator=torch.Generator().manual_seed(1))
    files = Files(asked.out, rank)
    step = newest(files, world)
    if step:
        kept = torch.load(files.path(step))
        torch.set_rng_state(kept["rng"])
        with torch.no_grad():
            for name, parameter in names.items():
                into = parameter.to_local() if isinstance(parameter, DTensor) else parameter
                into.copy_(kept["model"][name])
                moment = kept["optimizer"][name]
                if isinstance(parameter, DTensor):
                    moment = DTensor.from_local(moment, parameter.device_mesh, parameter.placements)
                optimizer.state[parameter]["momentum_buffer"] = moment
    while step < STEPS:
        optimizer.zero_grad()
        loss = backward(batches[step, own])
        if not torch.tensor(loss).isfinite() or not all(local(p.grad).isfinite().all() for p in names.values()):
            sys.exit("the loss or a gradient is not finite")
        optimizer.step()
        step += 1
        if step % EVERY == 0:
            state = {
                "model": {name: local(parameter.detach()) for name, parameter in names.items()},
                "optimizer": {
                    name: local(optimizer.state[parameter]["momentum_buffer"]) for name, parameter in names.items()
                },
                "rng": torch.get_rng_state(),
                "step": step,
            }
            files.save(step, state)
    if asked.parallel != "none":
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
