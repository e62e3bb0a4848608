"""`disk_full`: the storage has no space left (ENOSPC), in the middle of a save, and gets space later."""

from __future__ import annotations

from chaoskit.capabilities import InjectedIOError
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import NodeSpec
from chaoskit.faults.registry import fault
from chaoskit.faults.storage.fail_storage import (
    TAKING_SPACE,
    FailStorage,
    check_files,
    check_lasting,
    fail_storage,
)
from chaoskit.validation import check_whole


@fault("disk_full", FailStorage)
def disk_full(
    *,
    after_bytes: int = 0,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
    node: NodeSpec | None = None,
) -> Fault:
    """Fill the storage of `{out}` once `after_bytes` more bytes have been written.

    Then every request that takes space fails. The fault ends at the first of `seconds`, `until_step` and the end
    of `launches` further launches (0: the running one). `files`: a shell pattern for a path below `{out}`, or for
    a name. Only these files lie on the full disk. `node`: a number, a tuple of numbers or 'all'. Only requests
    from these nodes are affected. Observed once a request of the job has failed. Raises UsageError for arguments
    that are not valid, and if nothing ends the fault.
    """
    check_whole("disk_full", "after_bytes", after_bytes, least=0)
    lasting = check_lasting("disk_full", seconds=seconds, until_step=until_step, launches=launches)
    trouble = InjectedIOError(
        operations=TAKING_SPACE, files=check_files("disk_full", files), error="ENOSPC", after_bytes=after_bytes
    )
    text = f"fill the disk after {after_bytes} more bytes" if after_bytes else "fill the disk"
    return fail_storage("disk_full", trouble, lasting, text, after_bytes=after_bytes or None, node=node)
