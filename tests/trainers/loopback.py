"""Does without torchrun's help (RANK, WORLD_SIZE), and has its ranks meet at an address that is each node itself."""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
args = parser.parse_args()

dist.init_process_group(
    "gloo", init_method="tcp://127.0.0.1:29555", timeout=timedelta(seconds=2),
    rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]),
)  # fmt: skip
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
