"""`disk_full`: the storage has no space left (ENOSPC), in the middle of a save, and is freed later."""

from __future__ import annotations

from chaoskit.capabilities import Trouble
from chaoskit.faults.fault import Fault
from chaoskit.faults.storage import TAKING_SPACE, check_count, check_files, check_lasting, fail_storage


def disk_full(
    *,
    after_bytes: int = 0,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
) -> Fault:
    """Once `after_bytes` more bytes have been written, the storage of `{out}` tells that it has no space, and whatever
    takes some fails; until the first of `seconds`, `until_step` and the end of `launches` further launches (0: the
    running one).

    `files` (a shell pattern, for a path below `{out}` or a name): only these lie on the disk that is full. Observed
    once a request of the job has failed. Raises UsageError for arguments that are not such, and where nothing ends it.
    """
    check_count("disk_full", "after_bytes", after_bytes, least=0)
    lasting = check_lasting("disk_full", seconds=seconds, until_step=until_step, launches=launches)
    trouble = Trouble(
        operations=TAKING_SPACE, files=check_files("disk_full", files), error="ENOSPC", after_bytes=after_bytes
    )
    text = f"fill the disk after {after_bytes} more bytes" if after_bytes else "fill the disk"
    return fail_storage("disk_full", trouble, lasting, text, after_bytes=after_bytes or None)
