"""A small DDP trainer whose ranks each write their part of a checkpoint, and whose rank 0 then says which is the
latest: after all of them with --barrier, else as soon as its own part is written."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main(out, *flags):
    dist.init_process_group("gloo")
    rank, latest = dist.get_rank(), Path(out) / "latest"
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    begun = 0
    if latest.exists():
        begun = int(latest.read_text())
        state = torch.load(Path(out) / f"step-{begun}" / f"{rank}.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(begun + 1, 13):
        data = torch.randn(4, 8, generator=torch.Generator().manual_seed(2 * step + rank))
        model(data).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 0:
            folder = Path(out) / f"step-{step}"
            folder.mkdir(exist_ok=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / f"{rank}.pt")
            if "--barrier" in flags:
                dist.barrier()
            if rank == 0:
                latest.write_text(str(step))
    del model  # before the process group: its hooks know of it
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
