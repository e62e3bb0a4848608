"""`DiskLimit`: how many bytes per second a group may read from a disk and write to it, and whether it had to wait.

In v1 only what a process itself waits for is limited: reads that the page cache does not have, direct and synchronous
writes, and fsync. What the kernel writes back later belongs to no group.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaoskit.environments.cgroups.group import ControlGroup

#: The kernel lets through in one go what is allowed in this many seconds.
_SLICE = 0.1


class DiskLimit:
    """The limit of one group on the `device` (`MAJOR:MINOR`), in bytes per second, each way. Raises OSError."""

    def __init__(self, group: ControlGroup, *, device: str, rate: int) -> None:
        self.device = device
        self._rate = rate
        self._group = group
        self._version = group.version("io")
        # In v1 a limit does not apply to the groups below.
        place = group.place("io")
        self._places = [place] if self._version == 2 else [place, *group.children("io")]
        self._set(str(rate))
        self._before = self._counts()
        self._pressed = self._pressure()
        self._seen = time.monotonic(), sum(self._before)
        self._queued = self._waited = 0.0

    def caused(self) -> tuple[int, int, float]:
        """Since it began: the bytes read and written, and for how many seconds requests have waited, at least."""
        read, written = self._counts()
        now, (then, before) = time.monotonic(), self._seen
        self._seen = now, read + written
        pressure = self._pressure()
        if self._version == 2 and pressure is not None and self._pressed is not None:
            self._waited = pressure - self._pressed
        else:
            # v1 counts what is asked for: what is asked for faster than the limit allows must wait.
            self._queued = max(0.0, self._queued + read + written - before - self._rate * (now - then))
            self._waited = max(self._waited, self._queued / self._rate - _SLICE)
        return read - self._before[0], written - self._before[1], self._waited

    def lift(self) -> None:
        """Take the limit away."""
        with suppress(OSError):  # the group is gone
            self._set("max" if self._version == 2 else "0")

    def _set(self, value: str) -> None:
        for place in self._places:
            if self._version == 2:
                (place / "io.max").write_text(f"{self.device} rbps={value} wbps={value}")
            else:
                for way in ("read", "write"):
                    (place / f"blkio.throttle.{way}_bps_device").write_text(f"{self.device} {value}")

    def _counts(self) -> tuple[int, int]:
        """The bytes read and written so far."""
        read = written = 0
        for place in self._places:
            name = "io.stat" if self._version == 2 else "blkio.throttle.io_service_bytes"
            for line in (place / name).read_text().splitlines():
                device, *words = line.split()
                if device != self.device:
                    continue
                if self._version == 2:
                    found = dict(word.split("=") for word in words)
                    read, written = read + int(found.get("rbytes", 0)), written + int(found.get("wbytes", 0))
                elif words[0] == "Read":
                    read += int(words[1])
                elif words[0] == "Write":
                    written += int(words[1])
        return read, written

    def _pressure(self) -> float | None:
        """The seconds in which a process of the group waited for a disk; None where the kernel does not count them."""
        try:
            lines = (self._places[0] / "io.pressure").read_text().splitlines()
        except OSError:
            return None
        some = next((line for line in lines if line.startswith("some")), "")
        return int(some.rpartition("total=")[2]) / 1e6 if "total=" in some else None


def disk_caused(limit: DiskLimit) -> dict[str, Any]:
    """The effect of a limit, as `CanLimitDisk.disk_limited` returns it."""
    read, written, seconds = limit.caused()
    return {"device": limit.device, "read": read, "written": written, "seconds": round(seconds, 3)}


def device_of(path: Path, *, sys: Path = Path("/sys/dev/block"), mounts: Path | None = None) -> str:
    """The disk that holds `path`, as `MAJOR:MINOR`; that of a partition is its whole disk. Raises LookupError if the
    file system is on no disk."""
    number = os.stat(path).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    if os.major(number) == 0:
        device = _source(device, mounts or Path("/proc/self/mountinfo"))
    entry = sys / device
    if not entry.exists():
        raise LookupError(f"{path} is on no disk (device {device}): store the runs on a disk with --dir")
    if (entry / "partition").exists():
        return (entry.resolve().parent / "dev").read_text().strip()
    return device


def _source(device: str, mounts: Path) -> str:
    """The block device below a file system that has a number of its own, such as btrfs; the same if there is none."""
    for line in mounts.read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split(" ")[2] == device:
            with suppress(OSError, IndexError):
                number = os.stat(after.split(" ")[1]).st_rdev
                if number:
                    return f"{os.major(number)}:{os.minor(number)}"
    return device
