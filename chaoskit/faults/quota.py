"""`quota`: some files hit a quota (EDQUOT) while all others are written: a pointer, say, and not what it points to."""

from __future__ import annotations

from chaoskit.capabilities import Trouble
from chaoskit.faults.fault import Fault
from chaoskit.faults.storage import TAKING_SPACE, check_files, check_lasting, fail_storage


def quota(
    *,
    files: str,
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
) -> Fault:
    """Whatever takes space fails for `files` (a shell pattern, for a path below `{out}` or a name), and for no others;
    until the first of `seconds`, `until_step` and the end of `launches` further launches (0: the running one).

    Observed once a request of the job has failed. Raises UsageError for arguments that are not such, and where nothing
    ends it.
    """
    lasting = check_lasting("quota", seconds=seconds, until_step=until_step, launches=launches)
    trouble = Trouble(operations=TAKING_SPACE, files=check_files("quota", files), error="EDQUOT")
    return fail_storage("quota", trouble, lasting, "exhaust the quota")
