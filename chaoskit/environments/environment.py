"""`Environment`: where a job runs. It launches the job, reports events, releases ranks from their gates, and cleans up.

An environment does not know any fault. The capability protocols that it fulfils (`chaoskit.capabilities`) say what it
can do to a job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from chaoskit.environments.launch.mode import COLD, Mode
from chaoskit.environments.traits import EnvironmentTraits, StorageKind
from chaoskit.nodes import ClusterPlace, Nodes


@dataclass(frozen=True)
class Arrived:
    """A rank has stopped at its gate and waits for `release`.

    `n` counts the steps that it has taken in its incarnation (at `step` it is about to take step n + 1). `record` holds
    the fields of the `step` event that it is about to write; None elsewhere. `key` is that of its `ProcessRef`: two
    nodes may give the same pid to two processes.
    """

    rank: int
    launch: int
    restart: int
    pid: int
    at: Literal["start", "step", "save", "saved"]
    n: int
    call: int = 1
    record: Mapping[str, Any] | None = None
    key: str = field(default="", compare=False)


@dataclass(frozen=True)
class Ended:
    """The job's command has ended. `code` is negative for a signal. `survivors` are the processes that outlived it,
    each `{"pid", "rank", "command"}`; the environment has killed them. `why` is what a scheduler says of it, and
    `requeued` whether that one starts the job again.
    """

    launch: int
    code: int
    survivors: tuple[Mapping[str, Any], ...] = ()
    why: str = ""
    requeued: bool = False


@dataclass(frozen=True)
class ExtraEvent:
    """Another event for the record, of this `kind`: a node started or ended (see docs/reference/format.md)."""

    kind: str
    data: Mapping[str, Any]


EnvironmentEvent = Arrived | Ended | ExtraEvent


@dataclass(frozen=True)
class RunSpec:
    """The specification of one run.

    `run_dir`: the run's directory. `out`: the job's `{out}`. `cwd`: where the command starts. `gated`: ranks stop
    at gates. `env`: what the user adds to the environment variables. `mode`: how the command is launched;
    `relaunch_mode`: how it is relaunched, if relaunches are another command. `learning`: the ranks report what they
    imported. `nodes`: on how many nodes the job runs. `storage`: whether `out` is a file system of ours (see
    `StorageKind`). `shows`: the harness will show the job other directories in place of `out` (see
    `CanShowDirectory`). `limits`: the controllers of control groups that faults of the run need (`memory`, `cpu`,
    `io`); the job is started in groups of its own if there are any. `image`, `mounts` and `helper_image`: of what the
    nodes are made, if they are containers (see `Job`), and `program`: the first word of the command, by which the
    Python of the image is found. `cluster`: where they are made, if they are pods. `partition`: that of a Slurm
    cluster, "" for the one that Slurm or the batch script chooses. `store`: the directory of all stored runs, whose
    files ranks may read, if there is one. `metadata`: the cloud whose metadata service the job finds on its nodes
    (`aws`, `gcp`, `azure`; "": none); with `imdsv1`, that of AWS needs no token.
    """

    run_dir: Path
    out: Path
    cwd: Path
    run_id: str
    gated: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = COLD
    relaunch_mode: Mode | None = None
    learning: bool = False
    nodes: Nodes = field(default_factory=Nodes)
    storage: StorageKind = ""
    shows: bool = False
    limits: tuple[str, ...] = ()
    image: str = ""
    helper_image: str = ""
    program: str = ""
    mounts: tuple[str, ...] = ()
    store: Path | None = None
    cluster: ClusterPlace | None = None
    metadata: str = ""
    imdsv1: bool = False
    partition: str = ""


class Environment(Protocol):
    """The environment of one run: a context manager. When it exits, nothing of the run is left."""

    @property
    def traits(self) -> EnvironmentTraits:
        """Its traits, declared on its class."""
        ...

    def __enter__(self) -> Environment: ...
    def __exit__(self, *exc: object) -> None: ...

    def launch(self, index: int, command: Sequence[str]) -> str:
        """Start the command as launch number `index`. Returns how: `warm`, `cold`, or `cold: ` and the reason.

        Raises UsageError if it cannot be started, TooFewNodes if not enough nodes of the job are left.
        """
        ...

    def wait(self, timeout: float) -> list[EnvironmentEvent]:
        """Wait for events, at most `timeout` seconds, and return them.

        The end of a launch is reported once, after all its other events, also if `stop` caused it.
        """
        ...

    def release(self, rank: int, *, keep_gating: bool, until: int = 0, names: int = 0) -> None:
        """Let the rank that arrived continue, or carry out its order. Without `keep_gating` it does not stop again.

        It does not stop at steps with an `n` below `until`, except at the first one after a load. In the next `names`
        steps it records its tensors one by one.
        """
        ...

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """Kill every process of the current launch; returns which were killed."""
        ...

    def stacks(self) -> dict[int, str]:
        """The Python stack of each living rank, as text. A rank that does not answer is left out."""
        ...
