"""What an environment of one machine needs of that machine, beside what its nodes are made of."""

from __future__ import annotations

import os
import sys

from chaoskit.environments.machine import processes


def why_not() -> str | None:
    """None if processes can be kept and signalled here, else the reason and the remedy."""
    if not sys.platform.startswith("linux"):
        return f"it needs Linux, and this is {sys.platform}: run it in a Linux container"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return f"the kernel offers no pidfd ({error}): it needs Linux 5.3 or newer"
    if processes.identify(os.getpid()) is None:
        return "/proc is not mounted: mount it (mount -t proc proc /proc)"
    return None
