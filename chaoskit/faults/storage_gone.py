"""`storage_gone`: the storage answers no more: requests hang, as on a hard mount, or fail at once, as on a soft one."""

from __future__ import annotations

from chaoskit.capabilities import Trouble
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.storage import check_error, check_files, check_lasting, fail_storage


def storage_gone(
    *,
    error: str | None = None,
    files: str = "*",
    seconds: float | None = None,
    until_step: int | None = None,
    launches: int | None = None,
) -> Fault:
    """Every request to the storage of `{out}` hangs until that is back, or fails with `error` ('EIO', 'ESTALE'); until
    the first of `seconds`, `until_step` and the end of `launches` further launches (0: the running one).

    Whoever hangs takes no step: without an error it needs `seconds`. `files` (a shell pattern, for a path below `{out}`
    or a name): only these. Observed once a request of the job has met it. Raises UsageError for arguments that are not
    such, and where nothing ends it.
    """
    if error is None and seconds is None:
        raise UsageError("storage_gone: give seconds=..., or error=...: who hangs comes to no step and no end")
    lasting = check_lasting("storage_gone", seconds=seconds, until_step=until_step, launches=launches)
    name = None if error is None else check_error("storage_gone", error)
    trouble = Trouble(files=check_files("storage_gone", files), error=name)
    text = "take the storage away" if error is None else f"take the storage away ({error})"
    return fail_storage("storage_gone", trouble, lasting, text, error=error)
