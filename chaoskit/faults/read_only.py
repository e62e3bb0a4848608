"""`read_only`: nothing can be changed (EROFS), as after a remount that errors have made a kernel do."""

from __future__ import annotations

from chaoskit.capabilities import Trouble
from chaoskit.faults.fault import Fault
from chaoskit.faults.storage import MODIFYING, check_files, check_lasting, fail_storage


def read_only(
    *,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
) -> Fault:
    """Whatever changes anything on the storage of `{out}` fails, files that are open already included; until the first
    of `seconds`, `until_step` and the end of `launches` further launches (0: the running one).

    `files` (a shell pattern, for a path below `{out}` or a name): only these. Observed once a request of the job has
    failed. Raises UsageError for arguments that are not such, and where nothing ends it.
    """
    lasting = check_lasting("read_only", seconds=seconds, until_step=until_step, launches=launches)
    trouble = Trouble(operations=MODIFYING, files=check_files("read_only", files), error="EROFS")
    return fail_storage("read_only", trouble, lasting, "make the storage read-only")
