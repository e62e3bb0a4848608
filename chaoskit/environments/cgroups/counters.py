"""What the kernel counts for one control group, in v1 and v2. Standard library only: containers read their own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: v1 shows the largest number that it knows where there is no limit.
_NO_LIMIT = 1 << 60


def memory_used(place: Path, version: int) -> int:
    """The bytes that the group holds and that the kernel cannot take back: without cached files."""
    name = "memory.current" if version == 2 else "memory.usage_in_bytes"
    stat = _fields(place / "memory.stat")
    total = "" if version == 2 else "total_"
    cached = stat.get(f"{total}inactive_file", 0) + stat.get(f"{total}active_file", 0)
    return max(0, int((place / name).read_text()) - cached)


def memory_kills(place: Path, version: int, *, below: Iterable[Path] = ()) -> int:
    """How many processes of the group the kernel has killed for want of memory. In v1 a kill counts in the group of the
    process alone, so those `below` it are counted, too."""
    if version == 2:
        return _fields(place / "memory.events").get("oom_kill", 0)
    return sum(_fields(each / "memory.oom_control").get("oom_kill", 0) for each in (place, *below))


def memory_available(about: Path = Path("/proc/meminfo")) -> int:
    """The bytes that the whole machine has for new processes."""
    line = next(line for line in about.read_text().splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024


def processor(place: Path, version: int) -> tuple[int, int, float]:
    """The periods in which the group ran, those in which it had to wait, and for how many seconds."""
    stat = _fields(place / "cpu.stat")
    seconds = stat["throttled_usec"] / 1e6 if version == 2 else stat["throttled_time"] / 1e9
    return stat["nr_periods"], stat["nr_throttled"], seconds


def memory_limit(place: Path, version: int) -> int | None:
    """The bytes that the group may hold; None without a limit."""
    text = (place / ("memory.max" if version == 2 else "memory.limit_in_bytes")).read_text().strip()
    return int(text) if text != "max" and int(text) < _NO_LIMIT else None


def processor_quota(place: Path, version: int) -> float | None:
    """How many processors the group may use; None without a limit."""
    if version == 2:
        quota, period = (place / "cpu.max").read_text().split()
    else:
        quota, period = ((place / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    return int(quota) / int(period) if quota not in ("max", "-1") else None


def _fields(path: Path) -> dict[str, int]:
    """The lines `name number` of a file."""
    pairs = (line.split() for line in path.read_text().splitlines())
    return {name: int(value) for name, value in pairs}
