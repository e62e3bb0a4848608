"""What a power cut at one instant would take of what lies in a directory: what no fsync has forced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chaoskit.analysis.crash_model.crashes import PROFILES
from chaoskit.analysis.crash_model.log import Log, forced
from chaoskit.errors import UsageError
from chaoskit.protocol.io_journal import Journal


@dataclass(frozen=True)
class Unforced:
    """The data or the name of what lies at `path` may be lost: `operation` is the latest that would be missing, and
    `missing` the fsync that has not come."""

    path: str
    what: Literal["data", "name"]
    operation: int
    missing: str


def unforced(journal: Journal, *, upto: int, under: str = "", profile: str = "posix") -> tuple[Unforced, ...]:
    """What nothing has forced once `upto` operations had been done: of the path `under`, of all below it, and of the
    directories that lead to it; "" is everything. The bytes that were written need not have been kept.

    Raises UsageError for an argument that cannot be, JournalError for a journal that does not begin with an empty
    directory.
    """
    if not 0 <= upto <= len(journal.operations):
        raise UsageError(f"unforced: upto must be at most {len(journal.operations)}, not {upto!r}")
    if profile not in PROFILES:
        raise UsageError(f"unforced: profile must be one of {', '.join(PROFILES)}, not {profile!r}")
    if profile == "kill":
        return ()
    log = Log(journal, upto=upto)
    sure = forced(log, profile)
    latest = {(change.directory, change.name): n for n, naming in log.naming.items() for change in naming.changes}
    found = []
    for path, directory, name, file in log.names():
        if not (_within(path, under) or _within(under, path)):
            continue
        above = path.rpartition("/")[0] or "."
        n = latest[directory, name]
        if n not in sure:
            found.append(Unforced(path, "name", n, f"fsync of the directory {above}"))
        late = [one.n for one in log.data.get(file, ()) if one.n not in sure]
        if late and _within(path, under):
            found.append(Unforced(path, "data", late[-1], "fsync of the file"))
    return tuple(found)


def _within(path: str, under: str) -> bool:
    return not under or path == under or path.startswith(f"{under}/")
