"""`FailStorage`: what the faults of the storage share: the trouble, how long it lasts, and what has met it."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from chaoskit.capabilities import CanFailStorage, Trouble
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, check_number
from chaoskit.journal import Kind

#: The kinds of requests that there are.
OPERATIONS: tuple[str, ...] = (*get_args(Kind), "open", "lookup", "read", "list", "space")
#: Those that change anything.
MODIFYING = tuple(kind for kind in get_args(Kind) if kind not in ("fsync", "fsyncdir"))
#: Those that a storage without space refuses: it still lets files be renamed, cut short and removed.
TAKING_SPACE = ("create", "mkdir", "symlink", "write")


@dataclass(frozen=True, kw_only=True)
class Lasting:
    """How long a trouble lasts: for `seconds`, until a rank is about to take step `until_step`, until `launches`
    further launches have ended (0: the one that it strikes); whichever comes first. None: not so."""

    seconds: float | None = None
    until_step: int | None = None
    launches: int | None = None

    def __str__(self) -> str:
        told = []
        if self.until_step is not None:
            told.append(f"until step {self.until_step}")
        if self.launches is not None:
            more = f"{self.launches} launch{'es' if self.launches > 1 else ''} later" if self.launches else ""
            told.append(f"until the end of the launch{f' {more}' if more else ''}")
        if self.seconds is not None:
            told.append(f"for {self.seconds:g} s")
        return " or ".join(told)


@dataclass(frozen=True, kw_only=True)
class FailStorage:
    """The storage has this `trouble` for as long as `lasting` says. `name` is the function that made it, `given` its
    arguments beside those of `lasting`, and `text` how it is told."""

    name: str
    trouble: Trouble
    lasting: Lasting
    given: Mapping[str, Any] = field(hash=False)
    text: str
    needs = (CanFailStorage,)
    # It shows in the requests of ranks that go on, and may be met late: it is looked for until it is over.
    holds = False
    observe_within = math.inf

    @property
    def heal_after(self) -> float | None:
        return self.lasting.seconds

    @property
    def heal_launches(self) -> int | None:
        return self.lasting.launches

    @property
    def heal_step(self) -> int | None:
        return self.lasting.until_step

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size)

    def apply(self, env: CanFailStorage, world_size: int) -> Mapping[str, Any]:
        return {"trouble": env.fail_storage(self.trouble), "error": self.trouble.error}

    def observed(self, env: CanFailStorage, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        met = dict(env.storage_met(applied["trouble"]))
        now = time.monotonic()
        if self.trouble.error is not None and self.trouble.times is not None:
            # So few that all of them are waited for: what comes later meets no error any more.
            return {"met": met, "since": now, "used_up": now} if met["count"] >= self.trouble.times else None
        return {"met": met, "since": now} if met["count"] > 0 else None

    def heal(self, env: CanFailStorage, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        env.mend_storage(applied["trouble"])
        return {"met": dict(env.storage_met(applied["trouble"]))}

    def to_json(self) -> dict[str, Any]:
        lasting = {name: value for name, value in asdict(self.lasting).items() if value is not None}
        return {"kind": self.name, **self.given, **lasting}

    def __str__(self) -> str:
        return f"{self.text} {self.lasting}"


def fail_storage(name: str, trouble: Trouble, lasting: Lasting, text: str, **given: Any) -> Fault:
    """The fault; of what is `given`, what says nothing (None, all files) is left out of its text and its JSON."""
    if trouble.files != "*":
        text = f"{text} ({trouble.files})"
        given["files"] = trouble.files
    said = {key: value for key, value in given.items() if value is not None}
    return Fault(FailStorage(name=name, trouble=trouble, lasting=lasting, given=said, text=text))


def check_lasting(
    name: str, *, seconds: float | None = None, until_step: int | None = None, launches: int | None = None
) -> Lasting:
    """Raises UsageError for what is no such number, and where nothing ends it."""
    if seconds is None and until_step is None and launches is None:
        raise UsageError(f"{name}: give seconds=..., until_step=... or launches=..., or it would last for ever")
    if seconds is not None:
        seconds = check_number(name, "seconds", seconds)
    if until_step is not None:
        check_count(name, "until_step", until_step)
    if launches is not None:
        check_count(name, "launches", launches, least=0)
    return Lasting(seconds=seconds, until_step=until_step, launches=launches)


def check_count(name: str, argument: str, value: int, *, least: int = 1) -> int:
    """`value`, unless it is no whole number from `least`: that raises UsageError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}: {argument} must be a whole number from {least}, not {value!r}")
    return value


def check_files(name: str, files: str) -> str:
    """`files`, unless it is no shell pattern: that raises UsageError."""
    if not isinstance(files, str) or not files:
        raise UsageError(f"{name}: files must be a shell pattern like 'checkpoints/*', not {files!r}")
    return files


def check_operations(name: str, operations: Sequence[str]) -> tuple[str, ...]:
    """`operations`, unless one is of no kind that there is: that raises UsageError."""
    several = isinstance(operations, (tuple, list)) and len(operations) > 0
    unknown = [one for one in operations if one not in OPERATIONS] if several else [operations]
    if unknown:
        raise UsageError(f"{name}: operations must be some of {', '.join(OPERATIONS)}, not {unknown[0]!r}")
    return tuple(operations)


def check_error(name: str, error: str) -> str:
    """`error`, unless the system has no error of that name: that raises UsageError."""
    if not isinstance(error, str) or error not in errno.errorcode.values():
        raise UsageError(f"{name}: error must be the name of one of the system's, like 'EIO', not {error!r}")
    return error
