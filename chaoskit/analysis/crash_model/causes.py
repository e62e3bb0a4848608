"""`Cause`: how a state can have come about, said of paths and operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chaoskit.analysis.crash_model.crashes import Crash, missing
from chaoskit.analysis.crash_model.disk import Disk, Left


@dataclass(frozen=True)
class LostWrites:
    """One thing that was lost: the `operations` on the name `path`, or those on the data of the file there.

    `left` says what is left of the data: "old", as before the first of them; "cut", the same and truncated as it was
    since; "zeros", the size, with zeros where nothing was before; "torn", a part of one write; "some", all but what
    these wrote. `rests_on` is the operation on names with which this one is lost.
    """

    what: Literal["name", "data"]
    path: str
    operations: tuple[int, ...]
    left: Left | None = None
    rests_on: int | None = None


@dataclass(frozen=True)
class Cause:
    """A crash after `after` operations, and what was lost. Without losses, only the processes died.

    `profile` is the mildest that allows it. `session`: only what this one had not forced was lost. `only`: of what was
    not forced, nothing is there but this operation on names and what it rests on.
    """

    profile: str
    after: int
    losses: tuple[LostWrites, ...] = ()
    session: int | None = None
    only: int | None = None


def explain(disk: Disk, crash: Crash) -> Cause:
    """What a crash took."""
    taken, operations = missing(disk, crash), disk.log.operations
    losses = []
    for n in sorted(taken.names):
        root = next((need for need in disk.log.naming[n].needs if need in taken.names), None)
        losses.append(LostWrites("name", operations[n].to or operations[n].path, (n,), rests_on=root))
    for file, gone in taken.data.items():
        ops = [one for one in disk.data[file] if one.n < crash.done and gone.fate(one) != "kept"]
        if ops:
            paths = disk.whole(crash.done).paths(file) or [ops[-1].path]
            losses.append(LostWrites("data", paths[0], tuple(one.n for one in ops), left=gone.left))
    session = crash.which if crash.kind == "session" else None
    only = crash.which if crash.kind == "only" else None
    return Cause(crash.profile, crash.done, tuple(losses), session, only)
