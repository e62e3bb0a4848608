"""`slow_storage`: whatever is written takes its time, as on a storage that others are busy with."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.capabilities import Trouble
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.storage import check_count, check_files, check_lasting, check_operations, fail_storage

#: What waits for the disk itself.
SLOW = ("write", "fsync", "fsyncdir")


def slow_storage(
    *,
    delay: float,
    times: int | None = None,
    operations: Sequence[str] = SLOW,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
) -> Fault:
    """Every request of the kinds `operations` (see `chaoskit.capabilities.Trouble`) to `files` (a shell pattern, for a
    path below `{out}` or a name) takes `delay` seconds longer, or the next `times` of them do; until the first of
    `seconds`, `until_step` and the end of `launches` further launches (0: the running one).

    Observed once a request of the job was held back. Raises UsageError for arguments that are not such, and where
    nothing ends it.
    """
    trouble = Trouble(
        operations=check_operations("slow_storage", operations),
        files=check_files("slow_storage", files),
        seconds=check_number("slow_storage", "delay", delay),
        times=None if times is None else check_count("slow_storage", "times", times),
    )
    lasting = check_lasting("slow_storage", seconds=seconds, until_step=until_step, launches=launches)
    what = "/".join(trouble.operations)
    text = (
        f"hold back every {what} by {delay:g} s" if times is None else f"hold back {times} {what} by {delay:g} s"
    )
    return fail_storage(
        "slow_storage", trouble, lasting, text, delay=trouble.seconds, times=times, operations=trouble.operations
    )
