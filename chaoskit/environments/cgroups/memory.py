"""`MemoryLimit`: a limit on the memory of a group that only falls, and how many processes the kernel killed for it."""

from __future__ import annotations

import errno
from contextlib import suppress

from chaoskit.environments.cgroups import counters
from chaoskit.environments.cgroups.group import ControlGroup

#: In v1 the kernel refuses a limit below what is in use. These are the bytes by which a refused limit is raised.
_RAISES = (0, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
_UNLIMITED = {1: "-1", 2: "max"}


class MemoryLimit:
    """The limit of one group. `leave`: the bytes that its processes may take beyond what they hold."""

    def __init__(self, group: ControlGroup, *, leave: int) -> None:
        self._group = group
        self._place = group.place("memory")
        self._version = group.version("memory")
        self._leave = leave
        self._before = self._kills()
        self._lifted = False
        self.limit: int | None = None

    @property
    def kills(self) -> int:
        """How many processes of the group the kernel has killed for want of memory since the limit began."""
        return self._kills() - self._before

    def used(self) -> int:
        """The bytes that the group holds and that the kernel cannot take back."""
        return counters.memory_used(self._place, self._version)

    def lower(self) -> None:
        """Lower the limit to what is in use now and `leave` more; never raise it. Raises OSError."""
        wanted = self.used() + self._leave
        if self._lifted or (self.limit is not None and wanted >= self.limit):
            return
        if self.limit is None:
            self._forbid_swap()
        name = "memory.max" if self._version == 2 else "memory.limit_in_bytes"
        for more in _RAISES:
            try:
                # In v2 the kernel kills at once if it cannot get below the limit; in v1, as soon as more is wanted.
                (self._place / name).write_text(str(wanted + more))
                self.limit = wanted + more
                return
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise

    def lift(self) -> None:
        """Take the limit away, for good."""
        self._lifted = True
        names = ("memory.max", "memory.swap.max") if self._version == 2 else ("memory.limit_in_bytes",)
        for name in names:
            with suppress(OSError):  # the machine has no swap, or the group is gone
                (self._place / name).write_text(_UNLIMITED[self._version])

    def _forbid_swap(self) -> None:
        """Without this the kernel would move memory to the swap space and kill nobody."""
        name, value = ("memory.swap.max", "0") if self._version == 2 else ("memory.swappiness", "0")
        with suppress(OSError):  # the machine has no swap
            (self._place / name).write_text(value)

    def _kills(self) -> int:
        return counters.memory_kills(self._place, self._version, below=self._group.children("memory"))
