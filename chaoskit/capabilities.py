"""Capabilities of environments, as small protocols. A fault asks for capabilities, never for an environment by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable


@dataclass(frozen=True)
class ProcessRef:
    """A reference to one process of the job, which stays true when its pid is used again.

    `pid` is the number by which the process calls itself, as the record shows it. `key` tells the environment that made
    the reference which process it is (a start time, a container); nobody else can read it. Both are kept as evidence.
    """

    pid: int
    key: str


@runtime_checkable
class CanSignal(Protocol):
    """Sends signals to the processes of the job and reports their state."""

    def rank_process(self, rank: int) -> ProcessRef:
        """The process of `rank` in the current incarnation. Raises LookupError if there is none."""
        ...

    def launcher_processes(self) -> Sequence[ProcessRef]:
        """The processes that run the job's command, one per node. Raises LookupError if none is running."""
        ...

    def signal(self, process: ProcessRef, signum: int) -> bool:
        """Send the signal. Returns False if the process has already ended."""
        ...

    def state(self, process: ProcessRef) -> Literal["running", "stopped", "gone"]:
        """The state of the process. A zombie counts as gone."""
        ...

    def delivered(self, process: ProcessRef, signum: int) -> bool:
        """Whether the process has received the signal: it has ended, or it handles the signal and none is pending."""
        ...


@dataclass(frozen=True)
class Activity:
    """What the processes of a job have used by now; two of them tell what they did meanwhile.

    `ranks` has the seconds of processor time of each living rank, `others` those of all other processes of the job but
    its launcher. `moved` is how many bytes all of these have read and written, `printed` how many the job has printed.
    """

    ranks: Mapping[int, float]
    others: float
    moved: int
    printed: int = 0


@runtime_checkable
class CanShowActivity(Protocol):
    """Tells whether the processes of the job do anything, so that a hang shows before the deadline."""

    def said(self) -> int:
        """How many bytes the ranks have written to their record; cheap enough for every second."""
        ...

    def activity(self) -> Activity:
        """What the processes of the current launch have used by now."""
        ...


@runtime_checkable
class CanOrder(Protocol):
    """Orders a rank to do something to itself when it next reaches its gate."""

    def order(self, rank: int, order: Mapping[str, Any]) -> None:
        """Give `order` to the rank: `{"do": "exit", "code": 3}` or `{"do": "raise", "type": ..., "message": ...}`."""
        ...

    def raised(self, rank: int) -> bool:
        """Whether the rank has reported that it raises, in the incarnation that was ordered to."""
        ...


@runtime_checkable
class CanCorruptNumbers(Protocol):
    """Orders a rank to corrupt numbers of its own training, from the next time it reaches its gate."""

    def corrupt(self, rank: int, order: Mapping[str, Any]) -> int:
        """Give the order to the rank (see `chaoskit.faults.numeric.numbers`). Returns a number for `corrupted`. Raises
        LookupError if the rank is not connected, or already has another order."""
        ...

    def corrupted(self, rank: int, number: int) -> Mapping[str, Any] | None:
        """The rank's report on that order: the first change that it made, or `{"refused": why}`; None while there is no
        report. A rank that ends before it has carried out the order counts as having refused it."""
        ...


@dataclass(frozen=True)
class StoredCheckpoint:
    """One save that is still on disk. `files`: its files, named relative to the job's `{out}`. `save`: which save it
    was, by `launch`, `restart` and `n`, the steps of that incarnation. `written`: the files that a saving call wrote,
    not those that appeared otherwise (a copied script); empty if the names do not tell. If the same data was saved
    twice (`last.ckpt`), `written` has the last file and `copies` the others, by its name."""

    files: tuple[str, ...]
    save: Mapping[str, int]
    written: tuple[str, ...] = ()
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@runtime_checkable
class CanTouchFiles(Protocol):
    """Reads and writes files in the job's `{out}`, and knows which of them belong to saves. Names are relative to
    `{out}`."""

    def out(self) -> Path:
        """The job's `{out}`."""
        ...

    def aside(self) -> Path:
        """A new directory on the file system of `{out}` that the job does not know."""
        ...

    def stored_checkpoints(self) -> tuple[StoredCheckpoint, ...]:
        """The saves that every saving rank has completed and whose files still exist, also under new names; the newest
        first. Raises LookupError if there is none, or if no file of the newest is left.
        """
        ...

    def checkpoint_paths(self) -> tuple[str, ...]:
        """The files of saves, and the directories that a save has for itself, none of them inside another. Raises
        LookupError if there are none."""
        ...


#: A direction in the network, from one node to another, by their names.
Way = tuple[str, str]


@runtime_checkable
class CanNameNodes(Protocol):
    """Runs the job on named nodes."""

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        ...


@runtime_checkable
class CanPartition(Protocol):
    """Cuts the network between the nodes of a job, each direction separately. Nodes are given by name."""

    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that are up, in order. The first one hosts the rendezvous."""
        ...

    def cut(self, ways: Sequence[Way], *, percent: float = 100.0) -> int:
        """Drop packets in these directions, or `percent` of them, from now on. Returns the number of this cut."""
        ...

    def mend(self, cut: int) -> None:
        """End this cut. An unknown number is no error."""
        ...

    def lost(self, cut: int) -> Mapping[str, int]:
        """How many packets of the job this cut has stopped so far, by direction (`node0>node1`)."""
        ...

    def reaches(self, source: str, target: str) -> bool:
        """Whether a datagram from one node reaches the other. Sends one, which `lost` does not count."""
        ...


@runtime_checkable
class CanReset(Protocol):
    """Resets the connections between nodes."""

    def reset(self, ways: Sequence[Way]) -> int:
        """From now on answer packets of existing connections in these directions with a TCP reset, and allow new
        connections. Returns the number of this cut, see `CanPartition`."""
        ...


@runtime_checkable
class CanDegrade(Protocol):
    """Makes the network links of nodes slow or noisy, in both directions."""

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
        """From now on delay what these nodes send by `delay` seconds, plus or minus `jitter`; limit it to `rate` bytes
        per second; and flip a bit in `corrupt` percent of the packets. Returns a number for `restore`."""
        ...

    def restore(self, degraded: int) -> None:
        """End this degradation. An unknown number is no error."""
        ...

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """Its effect so far: `packets`, `bytes`, `corrupted`, and `held`, the sum of all delays in seconds."""
        ...


@runtime_checkable
class CanHideNames(Protocol):
    """Makes the names of nodes unknown, as when a name server is down."""

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        ...

    def hide_names(self, nodes: Sequence[str]) -> None:
        """Make every node's name unknown on these nodes, except their own."""
        ...

    def show_names(self, nodes: Sequence[str]) -> None:
        """Make the names known again on these nodes."""
        ...

    def resolves(self, node: str, name: str) -> bool:
        """Whether that node can resolve `name`. Asks on that node."""
        ...


@runtime_checkable
class CanShowClaims(Protocol):
    """Has faults made by somebody else, such as Chaos Mesh, and shows what that one says of them."""

    def claims(self) -> Sequence[Mapping[str, Any]]:
        """What is said now of each fault that is in force, for the record. It proves no effect."""
        ...


@runtime_checkable
class CanLoseNodes(Protocol):
    """Takes whole nodes away from a running job, and adds nodes to it."""

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        ...

    def lose_node(self, node: str, *, replaced: bool = False) -> Mapping[str, Any]:
        """Cut the node off the network and kill everything on it; returns what was killed. The job's policy for lost
        nodes decides what follows, unless it is `replaced`: then a fresh node takes its place at once. Raises
        LookupError if the node is not up."""
        ...

    def is_lost(self, node: str) -> bool:
        """Whether the node was lost: no process of the job runs there and no node reaches it. Stays true when a fresh
        node takes its place."""
        ...

    def freeze_node(self, node: str) -> Mapping[str, Any]:
        """Stop every process of the node (SIGSTOP); returns which. Raises LookupError if the node is not up."""
        ...

    def is_frozen(self, node: str) -> bool:
        """Whether every process of the job on that node is stopped."""
        ...

    def thaw_node(self, node: str) -> None:
        """Continue its processes."""
        ...

    def add_node(self) -> str:
        """Start a fresh node whose agent joins the running job; returns its name. Raises LookupError if the job already
        has its maximum of nodes."""
        ...

    def remove_node(self, node: str) -> None:
        """Ask the agent of the node to end (SIGTERM), as a scheduler does when it takes the node back. The node is not
        replaced. Raises LookupError if it is not up."""
        ...

    def ranks_of(self, node: str) -> tuple[int, ...]:
        """The ranks that run on that node now."""
        ...


@runtime_checkable
class CanEvict(Protocol):
    """Has a cluster end nodes of a running job in an orderly manner, as when their machine is drained."""

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        ...

    def evict_node(self, node: str, *, replaced: bool) -> Mapping[str, Any]:
        """Ask the cluster to evict the node: the job there gets SIGTERM, and what has not ended when the node's grace
        is over is killed. A fresh node then takes its place if it is `replaced`; else the job's policy for lost nodes
        decides. Returns evidence. Raises LookupError if the node is not up, or if the cluster does not allow it."""
        ...

    def evicted(self, node: str) -> Mapping[str, Any] | None:
        """What was observed of the eviction of that node once it is gone: `since`, when the job got SIGTERM, by the
        clock of the harness; `grace` in seconds; and after how many seconds the job there had `ended` by itself, or was
        `killed`. None until the node is gone. Raises LookupError if it does not go, or the job got no SIGTERM."""
        ...


#: The clouds whose metadata services chaoskit can be.
METADATA_CLOUDS = ("aws", "gcp", "azure")


@dataclass(frozen=True, kw_only=True)
class PreemptionNotice:
    """How a node is told that it will be taken away, and when; all times in seconds of the clock.

    `cloud` is one of `METADATA_CLOUDS`, whose metadata service tells it; or "", and the job gets `signal` (its ranks on
    the node, with all processes that they have started if `to_children`, the rank of number `rank`, or, with
    `to_agent`, the command that runs there), or finds `file`. It comes
    `times` times within `seconds`, after which everything on the node is killed and a fresh node takes its place; if
    not `kills`, nothing happens then. A notice is taken back after `withdrawn` seconds, if that is not None. The
    command on the node gets SIGTERM `shutdown` seconds before the end.
    """

    seconds: float
    cloud: str = ""
    signal: int | None = None
    to_agent: bool = False
    to_children: bool = False
    rank: int | None = None
    file: str = ""
    times: int = 1
    kills: bool = True
    withdrawn: float | None = None
    shutdown: float | None = None


@runtime_checkable
class CanPreempt(Protocol):
    """Gives nodes of a running job notice, and then takes them away."""

    def preemptible(self) -> tuple[str, ...]:
        """The names of the nodes that are up, in order."""
        ...

    def node_of(self, rank: int) -> str:
        """The node on which the rank runs."""
        ...

    def preempt(self, node: str, notice: PreemptionNotice) -> None:
        """Give notice to the node. Raises LookupError if nothing of the job runs there, or there is nobody to tell."""
        ...

    def preempted(self, node: str) -> Mapping[str, Any] | None:
        """What became of the newest notice to that node, once it is over: `received`, who learnt of it and after how
        many seconds; how often the metadata service was `asked`, and `refused` to answer; after how many seconds the
        job on the node had `ended` by itself, or was `killed`, or the notice was `withdrawn`. None until it is over."""
        ...


@runtime_checkable
class CanServeMetadata(Protocol):
    """Has the job find the metadata service of a cloud, which is chaoskit's."""

    def serves_metadata(self) -> bool:
        """Whether one answers in this run."""
        ...


@runtime_checkable
class CanOwnAddress(Protocol):
    """Gives nodes an address that is theirs alone, such as the one at which clouds have their metadata services."""

    def own_address(self) -> str:
        """The address."""
        ...


@runtime_checkable
class CanDrain(Protocol):
    """Evicts a node, and has the one that takes its place come up on another machine, as when a machine is drained."""

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        ...

    def drain_node(self, node: str) -> Mapping[str, Any]:
        """Ask the cluster to evict the node, as `CanEvict.evict_node` does with `replaced`; the fresh node must not run
        on the same machine. Returns evidence. Raises LookupError if the node is not up, or if the cluster does not
        allow it."""
        ...

    def drained(self, node: str) -> Mapping[str, Any] | None:
        """What `CanEvict.evicted` says of that node, and the `fresh` node with its machine, once that is up. None until
        then. Raises LookupError also if no fresh node takes its place, or if it runs on the same machine."""
        ...


@runtime_checkable
class CanSuspend(Protocol):
    """Takes all nodes of the job away at once, as a queue does that needs them for another job."""

    def suspend(self, partition: str = "", qos: str = "") -> Mapping[str, Any]:
        """Have every node end as the queue ends it; returns which. None comes back before `resume`. With a `partition`
        or a `qos`, a job of that partition or quality of service takes the nodes. Raises LookupError if nothing of the
        job runs, and where there are no such partitions or QOS."""
        ...

    def is_suspended(self) -> bool:
        """Whether every node that was there when the job was suspended last is gone."""
        ...

    def resume(self) -> None:
        """Let the job have nodes again."""
        ...


@runtime_checkable
class CanLimitTime(Protocol):
    """Has a running job reach the time limit that its scheduler enforces."""

    def limit_time(self, minutes: int) -> Mapping[str, Any]:
        """Lower the limit so that the job reaches it within so many minutes. Returns evidence: the `nodes`, the seconds
        of `grace` between the scheduler's first signal and its last, and the `signal` that the job has asked for before
        its limit ("": none). Raises LookupError if nothing of the job runs, or if it reaches its limit earlier
        anyway."""
        ...

    def time_limit_reached(self) -> Mapping[str, Any] | None:
        """What became of the job, once it has ended: `since` when the scheduler had told it (monotonic clock), and for
        each of its `nodes` what `CanPreempt.preempted` says. None until then. Raises LookupError if it ended before it
        was told anything."""
        ...


@dataclass(frozen=True, kw_only=True)
class InjectedIOError:
    """An error of the job's storage, in effect from `fail_storage` until `mend_storage`.

    It affects requests of the kinds `operations` (those of `chaoskit.protocol.io_journal`, and `open`, `lookup`,
    `read`, `list`, `space`; empty: all) to files whose path below `{out}`, or whose name, matches the shell pattern
    `files`. It begins after `after_bytes` bytes have been written to such files, and affects `times` requests (None:
    all). With `nodes`, it affects only requests from these nodes.

    A request is answered with the error named `error` (`ENOSPC`, `EIO`). Without `error`, it is delayed by `seconds`
    (None: until the error is mended, or the waiting process is killed). With `late`, no request is delayed: a name that
    one session makes or removes becomes visible to other sessions `seconds` later, as with cached directories over NFS.
    """

    operations: tuple[str, ...] = ()
    files: str = "*"
    error: str | None = None
    seconds: float | None = None
    late: bool = False
    after_bytes: int = 0
    times: int | None = None
    nodes: tuple[str, ...] = ()

    @property
    def picks_requests(self) -> bool:
        """Whether it affects some requests of its kinds alone, or delays them: not all of them fail."""
        whole = InjectedIOError(operations=self.operations, error=self.error, nodes=self.nodes)
        return self.error is None or self != whole


@runtime_checkable
class CanFailStorage(Protocol):
    """Makes the storage under `{out}` fail for the processes of the job, whatever library they write with."""

    def fail_storage(self, trouble: InjectedIOError) -> int:
        """Begin this error; returns its number. Raises LookupError if the job's storage cannot be made to fail."""
        ...

    def mend_storage(self, trouble: int) -> None:
        """End this error and let delayed requests continue. An unknown number is no error."""
        ...

    def storage_met(self, trouble: int) -> Mapping[str, Any]:
        """The requests that it has affected so far: `count`, `operations` (count by kind) and `files` (the paths of the
        first ten)."""
        ...


@runtime_checkable
class CanShowDirectory(Protocol):
    """Shows the job another directory in place of its `{out}`, and records what the job reads there."""

    def show(self, directory: Path) -> None:
        """From the next launch on, the job finds `directory` at the path of its `{out}`. Forgets everything about the
        directory shown before. Raises UsageError if that is not possible."""
        ...

    def looked_at(self) -> frozenset[tuple[str, str]]:
        """What the job has read since, and where (see `chaoskit.analysis.crash_model.observed`)."""
        ...

    def hide(self) -> None:
        """Stop showing the directory. Call it while no launch is running."""
        ...


@dataclass(frozen=True, kw_only=True)
class LimitTarget:
    """What a limit applies to: a `rank` with its children, or a `node` (its number among the nodes that are up) with
    everything of the job that runs there. One of the two is given."""

    rank: int | None = None
    node: int | None = None


@runtime_checkable
class CanLimitMemory(Protocol):
    """Limits the memory of a rank or of a node, so that the kernel kills for want of it."""

    def limit_memory(self, target: LimitTarget, *, leave: int) -> int:
        """Let the target take no more than `leave` bytes beyond what it holds; returns the number of this limit.
        Raises LookupError if nothing of the target runs, or if the environment cannot limit it."""
        ...

    def lower_memory(self, limit: int) -> None:
        """Lower the limit to what the target holds now and its `leave`, if that is less. It never rises."""
        ...

    def memory_limited(self, limit: int) -> Mapping[str, Any]:
        """Its effect so far: `kills`, the processes of the target that the kernel has killed, as the kernel counts
        them; `gone`, the pids of those that ended since; `used` and `limit`, in bytes."""
        ...

    def lift_memory(self, limit: int) -> None:
        """End this limit. An unknown number is no error."""
        ...


@runtime_checkable
class CanLimitProcessor(Protocol):
    """Limits the processor time of a rank or of a node."""

    def limit_processor(self, target: LimitTarget, *, cpu: float) -> int:
        """Let the target use no more than `cpu` processors, such as 0.25, or about as many where others take the rest;
        returns the number of this limit. Raises LookupError if nothing of the target runs, or if the environment cannot
        limit it."""
        ...

    def processor_limited(self, limit: int) -> Mapping[str, Any]:
        """Its effect so far, as the kernel counts it: `periods` of the scheduler in which the target ran, those in
        which it was `throttled`, and for how many `seconds`; and whether the target `felt` this limit."""
        ...

    def lift_processor(self, limit: int) -> None:
        """End this limit. An unknown number is no error."""
        ...


@runtime_checkable
class CanLimitDisk(Protocol):
    """Limits how fast a rank or a node reads from the disk that holds `{out}`, and writes to it."""

    def limit_disk(self, target: LimitTarget, *, rate: int) -> int:
        """Let the target read and write `rate` bytes per second each; returns the number of this limit. Raises
        LookupError if nothing of the target runs, if `{out}` is on no disk, or if the environment cannot limit it."""
        ...

    def disk_limited(self, limit: int) -> Mapping[str, Any]:
        """Its effect so far: the bytes `read` and `written`, and the `seconds` for which requests have waited."""
        ...

    def lift_disk(self, limit: int) -> None:
        """End this limit. An unknown number is no error."""
        ...


@runtime_checkable
class CanSkewClock(Protocol):
    """Makes the wall clock (CLOCK_REALTIME) of nodes wrong, for the processes of the job. Monotonic clocks go on as
    before, and so do the times that file systems give to files."""

    def skew_clock(self, node: int | None, *, by: float) -> int:
        """Let the wall clocks of all processes of the job that run on the node with that number (negative: from the
        last; None: on all nodes) be off by so many seconds from now on; returns the number of this skew. Raises
        LookupError if nothing of the job runs there, if the clock is off already, or if it cannot be set."""
        ...

    def keep_clock(self, skew: int) -> None:
        """Let processes of the node that were started since have that clock too, where the environment can."""
        ...

    def clock_skewed(self, skew: int) -> Mapping[str, Any]:
        """By how many seconds the wall clock of each rank was off since, at most, as the rank itself has recorded it:
        `ranks`, those on the node, and `others`; each by the number of the rank."""
        ...

    def set_clock_right(self, skew: int) -> None:
        """End this skew. An unknown number is no error."""
        ...


#: The capabilities that need control groups, and the controller of each.
LIMITS: dict[type, str] = {CanLimitMemory: "memory", CanLimitProcessor: "cpu", CanLimitDisk: "io"}

#: What an environment must have for a capability; `chaoskit.environments.remedy_for` names those that have it.
REMEDIES: dict[str, str] = {
    "CanSignal": "ranks whose processes the harness can signal",
    "CanShowActivity": "ranks whose processes the harness can look at",
    "CanOrder": "ranks in which the probe runs, and a channel to them",
    "CanCorruptNumbers": "ranks in which the probe runs, and a channel to them",
    "CanTouchFiles": "an {out} that the harness can read and write",
    "CanNameNodes": "nodes that have names of their own",
    "CanPartition": "nodes that have a network of their own",
    "CanReset": "nodes that have a network of their own, whose packets the harness can answer",
    "CanDegrade": "nodes that have a network of their own",
    "CanHideNames": "nodes that have names of their own",
    "CanShowClaims": "faults that somebody else makes",
    "CanFailStorage": "an {out} that is a file system of chaoskit's own (FUSE)",
    "CanShowDirectory": "an {out} that is a file system of chaoskit's own (FUSE)",
    "CanLimitMemory": "control groups with the controller memory",
    "CanLimitProcessor": "control groups with the controller cpu",
    "CanLimitDisk": "control groups with the controller io (in v1: blkio)",
    "CanSkewClock": "processes whose wall clock the harness can set",
    "CanPreempt": "nodes that can be given notice (in Kubernetes, evict_node does what the cluster does itself)",
    "CanServeMetadata": "nodes whose metadata service chaoskit can be: on a real cluster, the address of that service "
    "belongs to its cloud; give notice as its scheduler does, with --notices slurm",
    "CanOwnAddress": "nodes that have 169.254.169.254 for themselves; no documented variable names another for Azure",
    "CanEvict": "nodes that a cluster can evict",
    "CanDrain": "nodes that a cluster can evict, and whose place on its machines chaoskit chooses",
    "CanLoseNodes": "nodes that can be taken away from a running job",
    "CanLimitTime": "a job whose time limit a scheduler enforces",
    "CanSuspend": "a job whose nodes a queue gives (--env kubernetes --job-template FILE, or --env slurm)",
}
