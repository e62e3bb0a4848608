"""`late_names`: what one rank makes, the others see late, as over NFS with its cached directories."""

from __future__ import annotations

from chaoskit.capabilities import Trouble
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.storage import check_files, check_lasting, fail_storage


def late_names(
    *,
    delay: float,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
) -> Fault:
    """A name below `{out}` that one rank makes is there for the others `delay` seconds later; until the first of
    `seconds`, `until_step` and the end of `launches` further launches (0: the running one).

    `files` (a shell pattern, for a path below `{out}` or a name): only these. Observed once somebody has asked for a
    name, or listed a directory, and was not shown what is there. Raises UsageError for arguments that are not such, and
    where nothing ends it.
    """
    trouble = Trouble(
        files=check_files("late_names", files), seconds=check_number("late_names", "delay", delay), late=True
    )
    lasting = check_lasting("late_names", seconds=seconds, until_step=until_step, launches=launches)
    return fail_storage(
        "late_names", trouble, lasting, f"show new names {delay:g} s late to others", delay=trouble.seconds
    )
