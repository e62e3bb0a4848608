"""`ProcessorLimit`: how much processor time a group may use, and for how long the kernel made it wait."""

from __future__ import annotations

from contextlib import suppress

from chaoskit.environments.cgroups import counters
from chaoskit.environments.cgroups.group import ControlGroup

#: The kernel's period, in microseconds: also that of containers.
PERIOD = 100_000
#: The shortest quota that the kernel takes, in microseconds.
_LEAST = 1_000


def quota_of(cpu: float) -> int:
    """The microseconds of each period that so many processors are."""
    return max(_LEAST, round(cpu * PERIOD))


class ProcessorLimit:
    """The limit of one group. `cpu`: how many processors it may use, such as 0.25. Raises OSError."""

    def __init__(self, group: ControlGroup, *, cpu: float) -> None:
        self._place = group.place("cpu")
        self._version = group.version("cpu")
        self._before = self._counts()
        quota = quota_of(cpu)
        if self._version == 2:
            (self._place / "cpu.max").write_text(f"{quota} {PERIOD}")
        else:
            (self._place / "cpu.cfs_period_us").write_text(str(PERIOD))
            (self._place / "cpu.cfs_quota_us").write_text(str(quota))

    def caused(self) -> tuple[int, int, float]:
        """Since it began: the periods in which the group ran, those in which it was made to wait, and for how many
        seconds, summed over processors."""
        now = self._counts()
        return now[0] - self._before[0], now[1] - self._before[1], now[2] - self._before[2]

    def lift(self) -> None:
        """Take the limit away."""
        name, value = ("cpu.max", "max") if self._version == 2 else ("cpu.cfs_quota_us", "-1")
        with suppress(OSError):  # the group is gone
            (self._place / name).write_text(value)

    def _counts(self) -> tuple[int, int, float]:
        return counters.processor(self._place, self._version)
