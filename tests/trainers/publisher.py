"""One process that publishes directories by a rename and resumes from the newest. Told so, it forgets to
force something to the disk, or trusts what it finds, or has a bug in its resume that no crash causes."""

import argparse
import os
import time
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--forget", choices=["nothing", "data", "names", "everything"], default="nothing")
parser.add_argument("--on-doubt", choices=["older", "crash", "trust", "hang"], default="older")
parser.add_argument("--lose", choices=["nothing", "rng", "everything"], default="nothing")
args = parser.parse_args()


def force(path: Path, what: str) -> None:
    if args.forget not in (what, "everything"):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def save(done: int) -> None:
    temporary = args.out / "new"
    temporary.mkdir(exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    torch.save(state | {"done": done}, temporary / "state.pt")
    # As a format without checksums has it: where the file is gone to zeros, so are the weights.
    (temporary / "weights").write_bytes(torch.nn.utils.parameters_to_vector(model.parameters()).numpy(force=True))
    (temporary / "whole").write_text("yes")
    for path in sorted(temporary.iterdir()):
        force(path, "data")
    force(temporary, "names")
    os.rename(temporary, args.out / f"step-{done}")
    force(args.out, "names")


def load(path: Path) -> int:
    state = torch.load(path / "state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if args.lose != "rng":
        torch.set_rng_state(state["rng"])
    weights = torch.frombuffer(bytearray((path / "weights").read_bytes()), dtype=torch.float32)
    mine = torch.nn.utils.parameters_to_vector(model.parameters())
    if args.on_doubt == "trust":
        torch.nn.utils.vector_to_parameters(weights.clone(), model.parameters())
    elif not torch.equal(weights, mine) or (path / "whole").read_text() != "yes":
        raise ValueError(f"{path} is not what was saved")
    return int(state["done"])


torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.randn(100, 6, 4, generator=torch.Generator().manual_seed(2))
done = 0
for path in sorted(args.out.glob("step-*"), key=lambda path: -int(path.name.partition("-")[2])):
    if args.lose == "everything":
        break
    try:
        done = load(path)
        break
    except Exception:
        if args.on_doubt == "hang":
            time.sleep(10_000)
        if args.on_doubt != "older":
            raise
for index in range(done, 12):
    optimizer.zero_grad()
    model(data[index]).square().mean().backward()
    optimizer.step()
    if (index + 1) % 3 == 0:
        save(index + 1)
