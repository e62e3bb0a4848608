"""`busy`: processes that compute while something is measured, one for each core, as on a machine that others use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Ends by itself if its parent does.
SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(1_000_000))"


@contextmanager
def busy(*, processes: int | None = None) -> Iterator[None]:
    """Run these while the block runs; by default as many as there are cores."""
    spinning: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processes or os.cpu_count() or 1):
            spinning.append(subprocess.Popen([sys.executable, "-I", "-S", "-c", SPIN]))
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()
