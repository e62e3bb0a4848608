"""How much of the disk a directory holds, and sizes as people write them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_STEP = 1000


def held(directory: Path) -> int:
    """The bytes of the disk that a directory with its content holds. A file with several names counts once, and no link
    is followed."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for place, _, names in os.walk(directory):
        for path in (place, *(os.path.join(place, name) for name in names)):
            with suppress(OSError):  # it is gone
                about = os.lstat(path)
                if (about.st_dev, about.st_ino) not in seen:
                    seen.add((about.st_dev, about.st_ino))
                    total += about.st_blocks * 512
    return total


def shown(size: float) -> str:
    """'640 MB', '1.3 GB'."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < _STEP:
            return f"{size:.0f} {unit}" if unit in ("bytes", "kB") or size >= 10 else f"{size:.1f} {unit}"
        size /= _STEP
    return f"{size:.1f} TB"
