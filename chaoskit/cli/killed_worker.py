"""`KilledWorker`: the result of an experiment whose worker of pytest-xdist was killed, and by whom."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.engine.result import Result
from chaoskit.engine.shortage import LOST
from chaoskit.verdict import Outcome

_COUNTERS = Path("/proc/vmstat")
#: Seconds in which the process of a worker whose connection has ended must end, too.
_ENDS_WITHIN = 5.0


def kernel_kills(counters: Path = _COUNTERS) -> int:
    """How many processes the kernel of this machine has killed for want of memory since it was started."""
    with suppress(OSError, ValueError):
        for line in counters.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return 0


@dataclass(frozen=True)
class KilledWorker:
    """A worker that ended in the middle of an experiment: its exit `code`, negative for a signal, None if unknown, and
    how many processes the kernel has killed since for want of memory."""

    code: int | None
    kills: int

    @classmethod
    def of(cls, node: Any, *, kills_before: int) -> KilledWorker:
        """What pytest-xdist tells of a worker that is gone; `kills_before` is `kernel_kills` when it was well."""
        code = None
        with suppress(Exception):  # it is on another machine, or pytest-xdist keeps it elsewhere
            code = node.gateway._io.popen.wait(_ENDS_WITHIN)
        return cls(code, kernel_kills() - kills_before)

    @property
    def was_killed(self) -> bool:
        """Whether somebody, or the kernel, ended it, as opposed to an error of its own."""
        return self.code is None or -self.code in (signal.SIGKILL, signal.SIGTERM)

    def __str__(self) -> str:
        if not self.was_killed:
            assert self.code is not None
            how = f"was ended by {signal.Signals(-self.code).name}" if self.code < 0 else f"ended with {self.code}"
            return f"a process of chaoskit that ran this experiment {how}"
        how = "was killed" + (f" by {signal.Signals(-self.code).name}" if self.code is not None else "")
        if self.kills > 0:
            why = (
                f"the kernel has killed {self.kills} process{'' if self.kills == 1 else 'es'} for want of memory "
                "meanwhile: run fewer experiments at once (-n), or a smaller job"
            )
        else:
            why = (
                "the kernel has not run out of memory: somebody killed it, or the limit of a job or a service did"
            )
        return f"a process of chaoskit {how}: {LOST}; {why}"

    def result(self, nodeid: str) -> Result:
        """The result of the experiment."""
        return Result(
            nodeid.rpartition("::")[2], Outcome.INCONCLUSIVE.value, sentences=(str(self),), nodeid=nodeid,
            trouble="exhausted" if self.was_killed else "internal",
        )  # fmt: skip
