"""`io_error`: one or a few requests fail (EIO), and the next ones succeed, as on a disk that remaps a sector."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.capabilities import InjectedIOError
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import NodeSpec
from chaoskit.faults.registry import fault
from chaoskit.faults.storage.fail_storage import OPERATIONS, FailStorage, check_files, check_lasting, fail_storage
from chaoskit.validation import check_choices, check_errno, check_whole


@fault("io_error", FailStorage)
def io_error(
    *,
    times: int = 1,
    operations: Sequence[str] = ("write",),
    files: str = "*",
    error: str = "EIO",
    seconds: float = 30.0,
    node: NodeSpec | None = None,
) -> Fault:
    """Make the next `times` requests of the kinds `operations` fail with `error`.

    `chaoskit.capabilities.InjectedIOError` lists the kinds. After `seconds` no request fails any more. `files`: a
    shell pattern for a path below `{out}`, or for a name. `node`: a number, a tuple of numbers or 'all'. Only
    requests from these nodes are affected. Observed once `times` requests of the job have failed. Raises
    UsageError for arguments that are not valid.
    """
    trouble = InjectedIOError(
        operations=check_choices("io_error", "operations", operations, OPERATIONS),
        files=check_files("io_error", files),
        error=check_errno("io_error", "error", error),
        times=check_whole("io_error", "times", times, least=1),
    )
    lasting = check_lasting("io_error", seconds=seconds)
    text = f"fail {times} {' or '.join(trouble.operations)} with {error}"
    return fail_storage(
        "io_error", trouble, lasting, text, times=times, operations=trouble.operations, error=error, node=node
    )
