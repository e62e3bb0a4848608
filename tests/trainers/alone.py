"""One process, one file, an exact resume; and, if told to, one way to misbehave. For tests that need no second rank."""

import argparse
import os
import time
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--resume", action="store_true", help="needed to resume, if --must-ask is given")
parser.add_argument("--must-ask", action="store_true")
parser.add_argument("--from", dest="source", type=Path, help="resume from this file, which must be there")
parser.add_argument("--pace", type=float, default=0.0, help="seconds a step")
parser.add_argument(
    "--misbehave",
    choices=["no-save", "no-seed", "hang", "crash", "exit-early", "leave-a-child", "ignore-sigterm"],
)
args = parser.parse_args()
told = args.misbehave

if told == "crash":
    raise RuntimeError("this trainer crashes at once")
if told != "no-seed":
    torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.randn(100, 6, 4, generator=torch.Generator().manual_seed(2))
latest = args.out / "latest.pt"
done = 0
if args.source is not None or (latest.exists() and (args.resume or not args.must_ask)):
    if told == "hang":
        time.sleep(10_000)
    state = torch.load(args.source or latest, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    done = state["done"]
    if told == "exit-early":
        raise SystemExit(0)
if told == "leave-a-child" and done:
    import subprocess

    subprocess.Popen(["sleep", "1000"], start_new_session=True)
if told == "ignore-sigterm":
    import signal

    signal.signal(signal.SIGTERM, lambda *_: print("not now", flush=True))
for index in range(done, args.steps):
    loss = model(data[index]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(args.pace)
    if (index + 1) % 3 == 0 and told != "no-save":
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state | {"rng": torch.get_rng_state(), "done": index + 1}, latest.with_suffix(".tmp"))
        os.replace(latest.with_suffix(".tmp"), latest)
