"""`storage_gone`: the storage does not answer: requests hang, as on a hard mount, or fail at once, as on a soft
one.
"""

from __future__ import annotations

from chaoskit.capabilities import InjectedIOError
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import NodeSpec
from chaoskit.faults.registry import fault
from chaoskit.faults.storage.fail_storage import FailStorage, check_files, check_lasting, fail_storage
from chaoskit.validation import check_errno


@fault("storage_gone", FailStorage)
def storage_gone(
    *,
    error: str | None = None,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
    node: NodeSpec | None = None,
) -> Fault:
    """Make every request to the storage of `{out}` hang, or fail with `error` ('EIO', 'ESTALE').

    The fault ends at the first of `seconds`, `until_step` and the end of `launches` further launches (0: the
    running one). A rank that hangs takes no step: without `error`, give `seconds`. `files`: a shell pattern for a
    path below `{out}`, or for a name. Only these are gone. `node`: a number, a tuple of numbers or 'all'. Only
    requests from these nodes are affected. Observed once a request of the job has hung or failed. Raises
    UsageError for arguments that are not valid, and if nothing ends the fault.
    """
    if error is None and seconds is None:
        raise UsageError(
            "storage_gone: give seconds=..., or error=...: a rank that hangs reaches no step and no end"
        )
    lasting = check_lasting("storage_gone", seconds=seconds, until_step=until_step, launches=launches)
    name = None if error is None else check_errno("storage_gone", "error", error)
    trouble = InjectedIOError(files=check_files("storage_gone", files), error=name)
    text = "take the storage away" if error is None else f"take the storage away ({error})"
    return fail_storage("storage_gone", trouble, lasting, text, error=error, node=node)
