"""Notices, before it imports torch, whether somebody else has; then it learns faster, or crashes. Nobody should write
such a thing, and some packages do."""

import sys

early = "torch" in sys.modules

import argparse  # noqa: E402

import torch  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--then", choices=["faster", "crash"], required=True)
args = parser.parse_args()
if early and args.then == "crash":
    raise RuntimeError("torch was here before me")
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2 if early else 0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(6, 4)).square().mean().backward()
    optimizer.step()
