"""What an environment can do, as small protocols: a fault asks for these and never for an environment by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable


@dataclass(frozen=True)
class Process:
    """A process of the job, by its pid and its start time in clock ticks, which a reused pid does not share."""

    pid: int
    started: int


@runtime_checkable
class CanSignal(Protocol):
    """Sends signals to the processes of the job, by rank or to the launcher, and sees what became of them."""

    def rank_process(self, rank: int) -> Process:
        """The process of `rank` in the current incarnation; raises LookupError where it has none."""
        ...

    def launcher_processes(self) -> Sequence[Process]:
        """What the job's command became, one process a node; raises LookupError where none is running."""
        ...

    def signal(self, process: Process, signum: int) -> bool:
        """Send the signal; False if the process was already gone."""
        ...

    def state(self, process: Process) -> Literal["running", "stopped", "gone"]:
        """What the process is doing; a zombie is gone."""
        ...

    def delivered(self, process: Process, signum: int) -> bool:
        """Whether the process has taken the signal: it is gone, or it catches the signal and none is pending."""
        ...


@runtime_checkable
class CanOrder(Protocol):
    """Has a rank do something to itself when it is next at its gate."""

    def order(self, rank: int, order: Mapping[str, Any]) -> None:
        """Hand `order` to the rank: `{"do": "exit", "code": 3}` or `{"do": "raise", "type": ..., "message": ...}`."""
        ...

    def raised(self, rank: int) -> bool:
        """Whether the rank, in the incarnation that was given an order to raise, has said that it does so."""
        ...


@runtime_checkable
class CanCorruptNumbers(Protocol):
    """Has a rank make numbers of its own training wrong, from when it is next at its gate."""

    def corrupt(self, rank: int, order: Mapping[str, Any]) -> int:
        """Hand the order to the rank (see `chaoskit.faults.numbers`); a number that stands for it. Raises LookupError
        where the rank is not connected, or has something else to do."""
        ...

    def corrupted(self, rank: int, number: int) -> Mapping[str, Any] | None:
        """What the rank has said of it: what it has changed first, or `{"refused": why}`; None: nothing yet. A rank
        that is gone before it came to it has refused, too."""
        ...


@dataclass(frozen=True)
class StoredCheckpoint:
    """The `files` that one save has left, by their names below the job's `{out}`, and which `save` it was: its
    `launch` and `restart`, and `n`, the steps of that incarnation. `written` are those of them that went there by a
    call that saves, and not by some other way (a copied script); none where their names do not tell. Of what was saved
    more than once only the last is among them (`last.ckpt`), the others are its `copies`, by its name."""

    files: tuple[str, ...]
    save: Mapping[str, int]
    written: tuple[str, ...] = ()
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@runtime_checkable
class CanTouchFiles(Protocol):
    """Reaches what the job keeps in its `{out}`, and knows what of it its saves have left there. Names are relative
    to `{out}`."""

    def out(self) -> Path:
        """The job's `{out}`."""
        ...

    def aside(self) -> Path:
        """A new directory on the file system of `{out}` that the job knows nothing of."""
        ...

    def stored_checkpoints(self) -> tuple[StoredCheckpoint, ...]:
        """The saves that ended on every rank that saves, and of which files are left, wherever these have been renamed
        to since; the newest first.

        Raises LookupError where there is none, or nothing is left of the newest.
        """
        ...

    def checkpoint_directories(self) -> tuple[str, ...]:
        """The entries of `{out}` itself, directories or files, in which saves lie; raises LookupError if none do."""
        ...


#: A way through the network, from one node to another, by their names. The way back is another.
Way = tuple[str, str]


@runtime_checkable
class CanPartition(Protocol):
    """Cuts the network between the nodes of a job, each direction on its own. Nodes go by their names."""

    def nodes(self) -> tuple[str, ...]:
        """The nodes that are up, in order; the first hosts the rendezvous."""
        ...

    def cut(self, ways: Sequence[Way], *, how: Literal["drop", "reset"] = "drop", percent: float = 100.0) -> int:
        """From now on lose what takes these ways, or `percent` of it; a number that stands for this cut.

        `reset` answers what belongs to a connection that exists with a TCP reset, and lets new ones begin.
        """
        ...

    def mend(self, cut: int) -> None:
        """Let everything through again that this cut has stopped; no cut of that number is no error."""
        ...

    def lost(self, cut: int) -> Mapping[str, int]:
        """How many packets of the job this cut has stopped so far, by way (`node0>node1`)."""
        ...

    def reaches(self, source: str, target: str) -> bool:
        """Whether a datagram from one node comes to the other: one is sent, which no `lost` counts."""
        ...


@runtime_checkable
class CanDegrade(Protocol):
    """Makes the links of nodes slow or noisy, in both directions."""

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        ...

    def degrade(
        self,
        nodes: Sequence[str],
        *,
        delay: float = 0.0,
        jitter: float = 0.0,
        rate: float | None = None,
        corrupt: float = 0.0,
    ) -> int:
        """From now on hold back what these nodes send by `delay` seconds, plus or minus `jitter`; pass `rate` bytes per
        second at most; and flip a bit in `corrupt` percent of the packets. A number that stands for this."""
        ...

    def restore(self, degraded: int) -> None:
        """As before; no such number is no error."""
        ...

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """What has come of it so far: `packets`, `bytes`, `corrupted`, and `held`, seconds over all packets."""
        ...


@runtime_checkable
class CanHideNames(Protocol):
    """Lets the names of nodes be forgotten, as a name server does that is down."""

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        ...

    def hide_names(self, nodes: Sequence[str]) -> None:
        """On these nodes no node's name is known any more, its own excepted."""
        ...

    def show_names(self, nodes: Sequence[str]) -> None:
        """As before."""
        ...

    def resolves(self, node: str, name: str) -> bool:
        """Whether that node knows the address of `name`: it is asked there."""
        ...


@runtime_checkable
class CanLoseNodes(Protocol):
    """Takes whole nodes away from a running job, and gives it others."""

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        ...

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        """Cut the node off and end all that runs on it, so that it says nothing to anybody; who was ended. What becomes
        of the node is the supervisor's affair, unless it is `replaced`: then a fresh node takes its place at once.
        Raises LookupError where it is not up."""
        ...

    def is_lost(self, node: str) -> bool:
        """Whether nothing of the job runs there, and nobody reaches it: of the node that was lost, also where a fresh
        one has taken its place."""
        ...

    def freeze_node(self, node: str) -> Mapping[str, Any]:
        """Stop every process of the node (SIGSTOP); which. Raises LookupError where it is not up."""
        ...

    def is_frozen(self, node: str) -> bool:
        """Whether every process of the job on that node is stopped."""
        ...

    def thaw_node(self, node: str) -> None:
        """Let its processes go on."""
        ...

    def add_node(self) -> str:
        """Bring up a fresh node, whose agent joins the running job; its name. Raises LookupError where the job runs on
        as many as it may."""
        ...

    def remove_node(self, node: str) -> None:
        """Ask the agent of the node to end (SIGTERM), as a scheduler does that wants the node back. It is not replaced.
        Raises LookupError where it is not up."""
        ...

    def ranks_of(self, node: str) -> tuple[int, ...]:
        """The ranks that live on that node now."""
        ...


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What is wrong with the storage of a job, from now on until it is mended.

    It meets requests of the kinds `operations` (those of `chaoskit.journal`, and `open`, `lookup`, `read`, `list`,
    `space`; none: every one) to files whose path below `{out}`, or whose name, matches the shell pattern `files`. It
    begins once `after_bytes` bytes have been written to such files, and meets `times` requests (None: all).

    What it does: answers with the error of the name `error` (`ENOSPC`, `EIO`); or, if there is none, holds each request
    back for `seconds` before it is carried out (None: until it is mended, or whoever waits is killed). With `late`,
    nothing is held back: the names that one session makes or removes are seen by the others so many `seconds` later,
    as over NFS with its cached directories.
    """

    operations: tuple[str, ...] = ()
    files: str = "*"
    error: str | None = None
    seconds: float | None = None
    late: bool = False
    after_bytes: int = 0
    times: int | None = None


@runtime_checkable
class CanFailStorage(Protocol):
    """Makes the storage beneath `{out}` fail, for every process of the job, whatever it is written in."""

    def fail_storage(self, trouble: Trouble) -> int:
        """From now on; a number that stands for this trouble. Raises LookupError where the job has no storage that can
        be made to fail."""
        ...

    def mend_storage(self, trouble: int) -> None:
        """As before, and what was held back goes on; no such number is no error."""
        ...

    def storage_met(self, trouble: int) -> Mapping[str, Any]:
        """What has met it so far: `count`, how many requests; `operations`, how many by kind; `files`, the paths of the
        first ten."""
        ...


#: How to get a capability that an environment lacks.
REMEDIES: dict[str, str] = {
    "CanSignal": "use --env local, which runs the ranks as processes of this machine",
    "CanOrder": "use --env local, and let the probe run in the ranks",
    "CanCorruptNumbers": "use --env local, and let the probe run in the ranks",
    "CanTouchFiles": "use --env local, where the job's files are those of this machine",
    "CanPartition": "use --env netns, where each node has a network of its own",
    "CanDegrade": "use --env netns, where each node has a network of its own",
    "CanHideNames": "use --env netns, where each node has names of its own",
    "CanFailStorage": "use --env local, where {out} can be a file system of chaoskit's own (FUSE)",
    "CanLoseNodes": "use --env netns, which runs the job on virtual hosts",
}
