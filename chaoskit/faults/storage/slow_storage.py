"""`slow_storage`: writing takes long, as on a storage that is busy with others."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.capabilities import InjectedIOError
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import NodeSpec
from chaoskit.faults.registry import fault
from chaoskit.faults.storage.fail_storage import OPERATIONS, FailStorage, check_files, check_lasting, fail_storage
from chaoskit.validation import check_choices, check_number, check_whole

#: The kinds that wait for the disk itself.
SLOW = ("write", "fsync", "fsyncdir")


@fault("slow_storage", FailStorage)
def slow_storage(
    *,
    delay: float,
    times: int | None = None,
    operations: Sequence[str] = SLOW,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
    node: NodeSpec | None = None,
) -> Fault:
    """Delay every request of the kinds `operations`, or the next `times` of them, by `delay` seconds.

    `chaoskit.capabilities.InjectedIOError` lists the kinds. `files`: a shell pattern for a path below `{out}`, or
    for a name. The fault ends at the first of `seconds`, `until_step` and the end of `launches` further launches
    (0: the running one). `node`: a number, a tuple of numbers or 'all'. Only requests from these nodes are
    affected. Observed once a request of the job was delayed. Raises UsageError for arguments that are not valid,
    and if nothing ends the fault.
    """
    trouble = InjectedIOError(
        operations=check_choices("slow_storage", "operations", operations, OPERATIONS),
        files=check_files("slow_storage", files),
        seconds=check_number("slow_storage", "delay", delay, over=0),
        times=None if times is None else check_whole("slow_storage", "times", times, least=1),
    )
    lasting = check_lasting("slow_storage", seconds=seconds, until_step=until_step, launches=launches)
    what = "/".join(trouble.operations)
    text = (
        f"hold back every {what} by {delay:g} s" if times is None else f"hold back {times} {what} by {delay:g} s"
    )
    return fail_storage(
        "slow_storage",
        trouble,
        lasting,
        text,
        delay=trouble.seconds,
        times=times,
        operations=trouble.operations,
        node=node,
    )
