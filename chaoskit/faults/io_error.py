"""`io_error`: a request or a few fail (EIO), and the next ones are fine, as on a disk that has to remap a sector."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.capabilities import Trouble
from chaoskit.faults.fault import Fault
from chaoskit.faults.storage import (
    check_count,
    check_error,
    check_files,
    check_lasting,
    check_operations,
    fail_storage,
)


def io_error(
    *,
    times: int = 1,
    operations: Sequence[str] = ("write",),
    files: str = "*",
    error: str = "EIO",
    seconds: float = 30.0,
) -> Fault:
    """The next `times` requests of the kinds `operations` (see `chaoskit.capabilities.Trouble`) to `files` (a shell
    pattern, for a path below `{out}` or a name) fail with `error`; none does any more after `seconds`.

    Observed once so many requests of the job have failed. Raises UsageError for arguments that are not such.
    """
    trouble = Trouble(
        operations=check_operations("io_error", operations),
        files=check_files("io_error", files),
        error=check_error("io_error", error),
        times=check_count("io_error", "times", times),
    )
    lasting = check_lasting("io_error", seconds=seconds)
    text = f"fail {times} {' or '.join(trouble.operations)} with {error}"
    return fail_storage(
        "io_error", trouble, lasting, text, times=times, operations=trouble.operations, error=error
    )
