"""One process with an exact resume, save for one flaw of which no recorded component shows anything for many steps;
`--flaw` names it. For tests of windows.

60 steps (`--steps`) in epochs of 20, and a checkpoint every 10 steps, of which the newest three are kept.
"""

import argparse
import hashlib
import os
import random
import time
from pathlib import Path

import torch

FLAWS = {
    "counter": "some steps after a resume (--after) the loss is another one",
    "upper": "some steps (--after) after a resume from step 30 or later the loss is another one",
    "cache": "15 steps after a resume the batches come from a cache",
    "retention": "the third save after a resume is removed again",
    "rng": "random streams are not restored",
    "optimizer": "the optimizer is not restored",
    "child": "a resumed process leaves a child behind",
    "elsewhere": "checkpoints lie outside of --out, in a directory named after it",
    "pointer": "the newest checkpoint is found by its absolute path, and without it the job begins anew",
    "moved": "saves go where the checkpoint says that --out was",
    "torn": "a checkpoint is written in its place, and read however much of it is there",
    "older": "where a temporary file was left, the newest checkpoint is not trusted",
    "debris": "each launch leaves a file that is named after its process",
}

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--flaw", choices=FLAWS, default="")
parser.add_argument("--after", type=int, default=30, help="steps after which the flaw shows")
parser.add_argument("--elsewhere", type=Path)
parser.add_argument("--pace", type=float, default=0.002, help="seconds a step")
args = parser.parse_args()

out, pointer = args.out, args.out / "newest.txt"
if args.flaw == "elsewhere":
    out = args.elsewhere / hashlib.sha256(str(args.out).encode()).hexdigest()
out.mkdir(parents=True, exist_ok=True)
if args.flaw == "debris":
    (out / f"launch-{os.getpid()}.log").write_text("begun\n")
torch.manual_seed(1)
random.seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
rows = torch.randn(80, 4, generator=torch.Generator().manual_seed(2))
found = sorted(out.glob("step-*.pt"))
if args.flaw == "pointer":
    named = Path(pointer.read_text()) if pointer.exists() else None
    found = [named] if named is not None and named.exists() else []
if args.flaw == "older" and list(out.glob("*.tmp")):
    found = found[:-1]
done = 0
resumed = bool(found)
if found:
    state = torch.load(found[-1], weights_only=True)
    model.load_state_dict(state["model"])
    if args.flaw != "optimizer":
        optimizer.load_state_dict(state["optimizer"])
    if args.flaw != "rng":
        torch.set_rng_state(state["rng"])
    done = state["done"]
    if args.flaw == "moved":
        out = Path(state["out"])
        out.mkdir(parents=True, exist_ok=True)
    if args.flaw == "child":
        import subprocess

        subprocess.Popen(["sleep", "1000"], start_new_session=True)
first, cache, saves = done, [], 0
for epoch in range(done // 20, args.steps // 20):
    order = torch.randperm(80, generator=torch.Generator().manual_seed(epoch)).tolist()
    picked = [order[at : at + 4] for at in range(0, 80, 4)][done % 20 :]
    for batch in torch.utils.data.DataLoader(rows, batch_sampler=picked, generator=torch.Generator()):
        if resumed and args.flaw == "cache":
            cache.append(batch)
            batch = cache[0] if len(cache) > 15 else batch
        late = resumed and args.flaw == "counter" and done - first > args.after
        late |= resumed and args.flaw == "upper" and first >= 30 and done - first > args.after
        loss = model(batch).square().mean() * (1.5 if late else 1.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(args.pace)
        done += 1
        if done % 10 == 0:
            path = out / f"step-{done:03}.pt"
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "rng": torch.get_rng_state(),
            }
            draft = path if args.flaw == "torn" else path.with_suffix(".tmp")
            torch.save({**state, "done": done, "out": str(out)}, draft)
            os.replace(draft, path)
            pointer.write_text(str(path)) if args.flaw == "pointer" else None
            saves += 1
            for old in sorted(out.glob("step-*.pt"))[:-3]:
                old.unlink()
            if resumed and saves == 3 and args.flaw == "retention":
                path.unlink()
