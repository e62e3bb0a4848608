"""How long after SIGKILL the memory of a rank's device is free again, against the moment at which its parent could reap
it: by then a relaunch may begin.

    python benchmarks/gpu/killed_memory.py
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time

HOLDER = """
import sys, time, torch
held = [torch.ones(1 << 28, device="cuda") for _ in range(int(sys.argv[1]))]
torch.cuda.synchronize()
print("held", flush=True)
while True:
    held[0].mul_(1.0)
"""


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gib", type=int, default=20)
    parser.add_argument("--times", type=int, default=3)
    told = parser.parse_args()
    for _ in range(told.times):
        before = torch.cuda.mem_get_info()[0]
        command = [sys.executable, "-c", HOLDER, str(told.gib)]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        holder.stdout.readline()
        held = before - torch.cuda.mem_get_info()[0]
        begun = time.monotonic()
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        reaped = time.monotonic() - begun
        at_once = before - torch.cuda.mem_get_info()[0]
        while before - torch.cuda.mem_get_info()[0] > held / 20 and time.monotonic() - begun < 30:
            time.sleep(0.002)
        freed = time.monotonic() - begun
        print(
            f"held {held / 2**30:.1f} GiB; reaped {reaped * 1e3:.0f} ms after SIGKILL, when {at_once / 2**30:.1f} GiB "
            f"were still held; free after {freed * 1e3:.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
