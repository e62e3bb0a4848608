"""`quota`: some files hit a quota (EDQUOT) while all others can be written: a pointer, say, and not its target."""

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


@fault("quota", FailStorage)
def quota(
    *,
    files: str,
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
    node: NodeSpec | None = None,
) -> Fault:
    """Refuse every request that takes space for `files`, and for no other files.

    `files`: a shell pattern for a path below `{out}`, or for a name. The fault ends at the first of `seconds`,
    `until_step` and the end of `launches` further launches (0: the running one). `node`: a number, a tuple of
    numbers or 'all'. Only requests from these nodes are affected. Observed once a request of the job has failed.
    Raises UsageError for arguments that are not valid, and if nothing ends the fault.
    """
    lasting = check_lasting("quota", seconds=seconds, until_step=until_step, launches=launches)
    trouble = InjectedIOError(operations=TAKING_SPACE, files=check_files("quota", files), error="EDQUOT")
    return fail_storage("quota", trouble, lasting, "exhaust the quota", node=node, files=files)
