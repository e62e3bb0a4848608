"""`FailStorage`: the action of the faults that make the storage fail while the job uses it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast, get_args

from chaoskit.capabilities import CanFailStorage, CanNameNodes, InjectedIOError
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.node.nodes import NodeSpec, as_json, numbers, resolve_nodes, show_nodes
from chaoskit.protocol.io_journal import Kind
from chaoskit.validation import check_number, check_numbered, check_pattern, check_whole

#: All kinds of requests.
OPERATIONS: tuple[str, ...] = (*get_args(Kind), "open", "lookup", "read", "list", "space")
#: The kinds that change anything.
MODIFYING = tuple(kind for kind in get_args(Kind) if kind not in ("fsync", "fsyncdir"))
#: The kinds that a full storage refuses. It still renames, truncates and removes files.
TAKING_SPACE = ("create", "mkdir", "symlink", "write")


@dataclass(frozen=True, kw_only=True)
class Lasting:
    """How long a fault lasts: for `seconds`, until a rank is about to take step `until_step`, until `launches`
    further launches have ended (0: the running one). The first limit counts; None is no limit.
    """

    seconds: float | None = None
    until_step: int | None = None
    launches: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The limits that there are."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        limits = []
        if self.until_step is not None:
            limits.append(f"until step {self.until_step}")
        if self.launches is not None:
            more = f"{self.launches} launch{'es' if self.launches > 1 else ''} later" if self.launches else ""
            limits.append(f"until the end of the launch{f' {more}' if more else ''}")
        if self.seconds is not None:
            limits.append(f"for {self.seconds:g} s")
        return " or ".join(limits)


@dataclass(frozen=True, kw_only=True)
class FailStorage:
    """Make the storage fail as `trouble` says, for as long as `lasting` says. `name` is the function that made the
    fault, `given` its arguments besides those of `lasting`, and `text` says what it does. With `node`, only
    requests from these nodes are affected.
    """

    name: str
    trouble: InjectedIOError
    lasting: Lasting
    given: Mapping[str, Any] = field(hash=False)
    text: str
    node: NodeSpec | None = None
    needs = (CanFailStorage,)
    # It takes effect in requests of ranks that go on, perhaps late: the controller looks for it until it is over.
    holds = False
    unhurried = True
    observe_within = math.inf

    @property
    def some_nodes(self) -> bool:
        return self.node is not None

    @property
    def picks_requests(self) -> bool:
        return self.trouble.picks_requests

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return numbers(self.node) if self.node is not None else ()

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
        told: dict[str, Any] = {"error": self.trouble.error}
        trouble = self.trouble
        if self.node is not None:
            trouble = replace(trouble, nodes=resolve_nodes(self.name, self.node, cast(CanNameNodes, env).nodes()))
            told["nodes"] = list(trouble.nodes)
        return {"trouble": env.fail_storage(trouble), **told}

    def observed(self, env: CanFailStorage, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        met = dict(env.storage_met(applied["trouble"]))
        now = time.monotonic()
        if self.trouble.error is not None and self.trouble.times is not None:
            # With a limited number of errors, wait until all of them were given: then the fault is over.
            return {"met": met, "since": now, "used_up": now} if met["count"] >= self.trouble.times else None
        return {"met": met, "since": now} if met["count"] > 0 else None

    def heal(self, env: CanFailStorage, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        env.mend_storage(applied["trouble"])
        return {"met": dict(env.storage_met(applied["trouble"]))}

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, **self.given, **self.lasting.to_json()}

    def __str__(self) -> str:
        return f"{self.text} {self.lasting}"


def fail_storage(
    name: str, trouble: InjectedIOError, lasting: Lasting, text: str, *, node: NodeSpec | None = None, **given: Any
) -> Fault:
    """The fault. Arguments without effect (None, all files) are left out of its text and its JSON."""
    if node is not None:
        check_numbered(name, "node", node, distinct=True)
        text = f"{text} for {show_nodes(node)}"
        given["node"] = as_json(node)
    if trouble.files != "*":
        text = f"{text} ({trouble.files})"
        given["files"] = trouble.files
    said = {key: value for key, value in given.items() if value is not None}
    return Fault(FailStorage(name=name, trouble=trouble, lasting=lasting, given=said, text=text, node=node))


def check_lasting(
    name: str, *, seconds: float | None = None, until_step: int | None = None, launches: int | None = None
) -> Lasting:
    """The limits; raises UsageError for one that is not valid, and if there is none."""
    if seconds is None and until_step is None and launches is None:
        raise UsageError(
            f"{name}: give seconds=..., until_step=... or launches=...; without a limit the fault would never end"
        )
    if seconds is not None:
        seconds = check_number(name, "seconds", seconds, over=0)
    if until_step is not None:
        check_whole(name, "until_step", until_step, least=1)
    if launches is not None:
        check_whole(name, "launches", launches, least=0)
    return Lasting(seconds=seconds, until_step=until_step, launches=launches)


def check_files(name: str, files: str) -> str:
    """A shell pattern for paths below `{out}`."""
    return check_pattern(name, "files", files, example="checkpoints/*")
