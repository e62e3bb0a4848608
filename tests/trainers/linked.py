"""One process that saves to a temporary name and publishes each save under two: `last.pt`, and a hard link or a copy of
it that is kept. A resume reads `last.pt`; with --fall-back it reads the older ones if that fails.
"""

import argparse
import os
import shutil
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--publish", choices=["link", "copy"], default="link")
parser.add_argument("--fall-back", action="store_true")
args = parser.parse_args()

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.randn(12, 6, 4, generator=torch.Generator().manual_seed(2))
last, temporary = args.out / "last.pt", args.out / "tmp.pt"
done = 0


def found():
    """What a resume may read, the best first."""
    older = sorted(args.out.glob("kept-*.pt"), reverse=True) if args.fall_back else []
    for path in [last, *older] if last.exists() or older else []:
        try:
            return torch.load(path, weights_only=True)
        except Exception:
            if not args.fall_back:
                raise
    return None


if (state := found()) is not None:
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    done = state["done"]
for index in range(done, len(data)):
    loss = model(data[index]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (index + 1) % 3 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state | {"rng": torch.get_rng_state(), "done": index + 1}, temporary)
        os.replace(temporary, last)
        kept = args.out / f"kept-{index + 1:02d}.pt"
        kept.unlink(missing_ok=True)
        (os.link if args.publish == "link" else shutil.copy2)(last, kept)
