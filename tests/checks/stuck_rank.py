"""One rank of two that is stuck in what it is told; it dumps its stacks in a form that faulthandler has, and goes.

python stuck_rank.py RANK STORE barrier|broadcast|backward|save
"""

import faulthandler
import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

rank, store, told = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def wait_in_it():
    if told == "barrier":
        dist.barrier()
    elif told == "broadcast":
        dist.broadcast_object_list([None], src=0)
    elif told == "backward":
        net(torch.ones(3, 2)).sum().backward()
    elif told == "save":
        dcp.save({"w": torch.zeros(2)}, checkpoint_id=f"{store}.dcp")


def go_together():
    """Leave when both have dumped their stacks: when one of them goes, the other waits no longer."""
    Path(f"{store}.dumped-{rank}").touch()
    while not Path(f"{store}.dumped-{1 - rank}").exists():
        time.sleep(0.1)
    os._exit(0)


dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
net(torch.ones(3, 2))
dist.barrier()
faulthandler.dump_traceback_later(6)
threading.Timer(7, go_together).start()
wait_in_it()
