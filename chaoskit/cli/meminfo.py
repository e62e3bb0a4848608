"""Reads the memory of this machine from /proc/meminfo."""

from __future__ import annotations

from pathlib import Path


def memory(line: str) -> int:
    """Return the value of a line of /proc/meminfo (`MemAvailable`, `MemTotal`) in bytes; 0 if it is missing."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return 0
    return next((int(each.split()[1]) * 1024 for each in text.splitlines() if each.startswith(f"{line}:")), 0)
