"""simple.py at a border: it notes which interpreter began, and under another one does what `--border` says."""

import argparse
import sys
from pathlib import Path

import simple
import torch


def refuse(out):
    def newest(*_):
        raise RuntimeError(f"the checkpoints in {out.name} are of another <b>version</b>")

    simple.newest = newest


def forget(out):
    torch.optim.AdamW.load_state_dict = lambda self, state: None


def wobble(out):
    exact = torch.nn.functional.mse_loss
    torch.nn.functional.mse_loss = lambda x, y: exact(x, y) * (1 + 1e-6)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--border", choices=("refuse", "forget", "wobble"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    note = args.out / "began-under"
    if not note.exists():
        note.write_text(sys.prefix)
    elif note.read_text() != sys.prefix and args.border is not None:
        globals()[args.border](args.out)
    sys.argv[1:] = ["--out", str(args.out)]
    simple.main()
