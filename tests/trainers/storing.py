"""The small trainer with checkpoints that bear a storage which fails; or with one seam of them broken, as the last word
of its command says.

    out/tmp-8-1/                being written, for the first time or the second
    out/step-8/part-rank-0.pt   published by one rename
    out/latest                  what people read; who broke `pointer` goes by it
"""

import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from functools import partial

import simple
import torch
import torch.distributed as dist

BROKEN = sys.argv.pop()
KEEP = 3
LATE, PATIENCE = 2.0, 2.0  # seconds
failed = False


def save(out, rank, step, epoch, done, model, optimizer, scheduler):
    global failed
    if BROKEN == "gives-up" and failed:
        return
    state = {
        "step": step, "epoch": epoch, "done": done, "model": model.state_dict(),
        "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
        "torch": torch.get_rng_state(), "python": simple.random.getstate(),
    }  # fmt: skip
    watchdog = threading.Timer(PATIENCE, os._exit, [1])
    if BROKEN == "watchdog":
        watchdog.start()
    for folder in (out / f"tmp-{step}-1", out / f"tmp-{step}-2"):
        written = attempt(partial(write, folder, rank, state))
        if written or BROKEN == "counted":
            break
    watchdog.cancel()
    failed = not written
    if written or BROKEN == "counted":
        attempt(lambda: rank or publish(out, step, folder))
    elif rank == 0:
        print(f"going on without a checkpoint of step {step}", flush=True)


def write(folder, rank, state):
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    if BROKEN == "visible":
        dist.barrier()
    elif rank:
        seen_by = time.monotonic() + LATE
        while not folder.is_dir() and time.monotonic() < seen_by:
            time.sleep(0.02)
    with (folder / f"part-rank-{rank}.pt").open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def publish(out, step, folder):
    final = out / f"step-{step}"
    if BROKEN != "pointer":
        shutil.rmtree(final, ignore_errors=True)
    os.rename(folder, final)
    with suppress(OSError):
        (out / "latest.tmp").write_text(str(step))
        os.replace(out / "latest.tmp", out / "latest")
    for old in published(out)[:-KEEP]:
        shutil.rmtree(out / f"step-{old}", ignore_errors=True)


def attempt(part):
    """Whether the storage bore it, on every rank."""
    well = torch.ones(())
    try:
        part()
    except (OSError, RuntimeError) as problem:  # the second is torch's, of what the first has left
        if BROKEN in ("fatal", "visible", "pointer"):
            raise
        print(f"not saved: {problem}", flush=True)
        well.zero_()
    dist.all_reduce(well, op=dist.ReduceOp.MIN)
    return bool(well)


def published(out):
    return sorted(int(path.name[5:]) for path in out.glob("step-*"))


def newest(out, world):
    """In the words of `simple`, which opens `step-{these}-rank-{rank}.pt`."""
    if dist.get_rank() == 0:
        for left in out.glob("tmp-*"):
            shutil.rmtree(left)
    dist.barrier()
    steps = published(out)
    if BROKEN == "pointer":
        steps = [int((out / "latest").read_text())] if steps else []
    return f"{steps[-1]}/part" if steps else None


if __name__ == "__main__":
    simple.save, simple.newest = save, newest
    simple.main()
