"""`late_names`: files that one rank makes appear late for the others, as over NFS with cached directories."""

from __future__ import annotations

from chaoskit.capabilities import InjectedIOError
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault
from chaoskit.faults.storage.fail_storage import FailStorage, check_files, check_lasting, fail_storage
from chaoskit.validation import check_number


@fault("late_names", FailStorage)
def late_names(
    *,
    delay: float,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
) -> Fault:
    """Show a new name below `{out}` to ranks other than its maker only `delay` seconds later.

    The fault ends at the first of `seconds`, `until_step` and the end of `launches` further launches (0: the
    running one). `files`: a shell pattern for a path below `{out}`, or for a name. Only these are late. Observed
    once another process asked for a name, or listed a directory, and did not get what is there. Raises UsageError
    for arguments that are not valid, and if nothing ends the fault.
    """
    trouble = InjectedIOError(
        files=check_files("late_names", files),
        seconds=check_number("late_names", "delay", delay, over=0),
        late=True,
    )
    lasting = check_lasting("late_names", seconds=seconds, until_step=until_step, launches=launches)
    return fail_storage(
        "late_names", trouble, lasting, f"show new names {delay:g} s late to others", delay=trouble.seconds
    )
