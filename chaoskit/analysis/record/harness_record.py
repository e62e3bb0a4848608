"""What the harness records of a run: launches, nodes, faults, and the lines of the job's own log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaoskit.protocol.events import Event
from chaoskit.protocol.fault_kinds import kind_of

#: Where the store keeps `{out}`, in a word of the command.
_OUT = re.compile(r"/.*/runs/[^/]+/out(?=/|$)")


@dataclass(frozen=True)
class FaultRecord:
    """What became of fault number `index`: the times are None where it did not get that far."""

    index: int
    what: Mapping[str, Any]
    requested: float | None = None
    applied: float | None = None
    observed: float | None = None
    healed: float | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How the fault calls itself, for instance 'kill rank 1 at step 25'."""
        return str(self.what.get("text", "fault"))

    @property
    def was_not_due(self) -> bool:
        """Whether it is a later strike of a schedule, and the job ended before it. The first strike is always due:
        without it nothing was tested."""
        trigger = self.what.get("trigger") or {}
        return trigger.get("kind") == "every" and trigger.get("n", 1) > 1 and self.applied is None

    @property
    def kind(self) -> str | None:
        """The kind of its action, by its name today; None if the record does not say."""
        return kind_of(self.what.get("action"))


#: The cause of the end of launch 0 in a window: it is that of another run, whose state was kept.
BEFORE_WINDOW = "window"


@dataclass(frozen=True)
class LaunchRecord:
    """One start of the command. `code` is its exit code, negative for a signal; `cause` is what ended it:
    `itself`, `fault` (we killed the launcher), `hang`, `deadline`, `interrupted`, or why it was never begun:
    `too-few-nodes`, `supervisor` (the controller of the job starts nothing again). None while it had not ended. `how`
    is `warm`, `cold`, or `cold: ` and why it was not warm. `out` is the directory that the job was given as `{out}`; ""
    where an old record does not show it. `added` are the words that chaoskit appended to the command, because the job
    has to be told that it resumes. `why` is what a scheduler says of its end, and `requeued` whether that one starts
    the job again; `command` are the words that were started, without secrets; `stops_with` is the exit code with which
    a job leaves that is to be started again, None for any but 0."""

    index: int
    begun: float
    ended: float | None = None
    code: int | None = None
    cause: str | None = None
    survivors: tuple[Mapping[str, Any], ...] = ()
    how: str = ""
    out: str = ""
    added: tuple[str, ...] = ()
    why: str = ""
    requeued: bool = False
    stops_with: int | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeRecord:
    """One lifetime of a node in a launch, from the start of its agent. `cause` is what ended that: `itself`,
    `supervisor` (another one had failed), `stop` (the run was over), or a fault: `lost`, `replaced`, `removed`,
    `evicted`. None while it had not ended."""

    launch: int
    node: str
    begun: float
    ended: float | None = None
    code: int | None = None
    cause: str | None = None
    address: str = ""
    how: str = ""


@dataclass(frozen=True)
class LogLine:
    """A line of the job's log that tells the loss of a step, as text. `line` counts from 1 in the log of `by` (a rank,
    "" where the log does not say) in a launch and restart, or in the one document that the job keeps (launch None)."""

    launch: int | None
    restart: int | None
    by: str
    line: int
    step: int
    loss: str


@dataclass(frozen=True)
class NoticeRecord:
    """A line of the job's output that speaks of a slow rank: its `text`, in which launch, and when chaoskit read it."""

    t: float
    launch: int
    text: str


@dataclass(frozen=True)
class WindowRecord:
    """What a run began from: the state of an uninterrupted run after `at` steps, whose newest save was that of position
    `save`; both are 0 if it began with the first step. `of` is the number of all steps; `end` is the position at which
    the run was ended, None if it was not."""

    save: int
    at: int
    of: int
    end: int | None = None

    @property
    def first_launch(self) -> int:
        """The first launch of the run itself: launch 0 was that of the uninterrupted run, if the run began late."""
        return 1 if self.at else 0


@dataclass(frozen=True)
class CutLog:
    """A log of which the middle is not kept: its `file` in the directory of the run, and how many bytes are left out
    because it is longer than `limit` bytes."""

    file: str
    left_out: int
    limit: int

    def __str__(self) -> str:
        kept = f"{self.left_out:,} bytes of {self.file} are left out"
        return f"{kept}, because chaoskit keeps {self.limit >> 20} MiB of a log"


def out_of(event: Event) -> str:
    """The job's `{out}` at a launch. Old records have it only in the command: `runs/<id>/out` below the store."""
    if "out" in event.data:
        return str(event["out"])
    found = (_OUT.search(str(word)) for word in event.get("command", ()))
    return next((one[0] for one in found if one is not None), "")
