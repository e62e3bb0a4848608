"""`read_only`: nothing can be changed (EROFS), as after the kernel remounted a failing disk."""

from __future__ import annotations

from chaoskit.capabilities import InjectedIOError
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import NodeSpec
from chaoskit.faults.registry import fault
from chaoskit.faults.storage.fail_storage import MODIFYING, FailStorage, check_files, check_lasting, fail_storage


@fault("read_only", FailStorage)
def read_only(
    *,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
    node: NodeSpec | None = None,
) -> Fault:
    """Refuse every request that changes anything on the storage of `{out}`, also of open files.

    The fault ends at the first of `seconds`, `until_step` and the end of `launches` further launches (0: the
    running one). `files`: a shell pattern for a path below `{out}`, or for a name. Only these are read-only.
    `node`: a number, a tuple of numbers or 'all'. Only requests from these nodes are affected. Observed once a
    request of the job has failed. Raises UsageError for arguments that are not valid, and if nothing ends the
    fault.
    """
    lasting = check_lasting("read_only", seconds=seconds, until_step=until_step, launches=launches)
    trouble = InjectedIOError(operations=MODIFYING, files=check_files("read_only", files), error="EROFS")
    return fail_storage("read_only", trouble, lasting, "make the storage read-only", node=node)
