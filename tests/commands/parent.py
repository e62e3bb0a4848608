"""`python parent.py OUT`: this process is rank 0 and starts rank 1, as the launcher of Lightning does."""

import os
import subprocess
import sys

from loop import free_port, train

if "LOCAL_RANK" not in os.environ:
    os.environ.update(LOCAL_RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": "1"})
train(*sys.argv[1:], rank=int(os.environ["LOCAL_RANK"]), world_size=2)
