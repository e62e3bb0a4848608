"""`ReadinessEvidence`: what a certificate rests on: results with their stored runs, and what studies measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaoskit.analysis.checkpoints.cost import CheckpointCost
from chaoskit.engine.result import Result
from chaoskit.nodes import Nodes
from chaoskit.studies.problems.acceptance import Acceptance
from chaoskit.verdict import Verdict


@dataclass(frozen=True)
class SeenLoad:
    """A load of a checkpoint: the function (`api`), the name of the file, and whether torch restricted what it
    unpickled (None: not known)."""

    api: str
    name: str
    weights_only: bool | None = None


@dataclass(frozen=True)
class StoredRun:
    """A stored run as the certificate finds it. `digest` is over its record and verdicts, `job` its command as text.
    `trained` are the launches in which a rank took a step, `loads` what it loaded."""

    id: str
    job: str
    digest: str
    verdicts: tuple[Verdict, ...] = ()
    trained: frozenset[int] = frozenset()
    loads: frozenset[SeenLoad] = frozenset()
    ranks: int = 0


@dataclass(frozen=True)
class TriedExperiment:
    """One experiment of one suite. `gap` says why its runs are no evidence; empty if they are."""

    result: Result
    suite: str
    runs: tuple[StoredRun, ...] = ()
    gap: str = ""


@dataclass(frozen=True)
class SdcShare:
    """What a map of silent corruption says: of so many corruptions, how many stayed silent, and the 95 % interval."""

    run: str
    digest: str
    injections: int
    silent: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class CrashStudy:
    """What the study of crash states says: its verdict and codes, and how many states it judged."""

    run: str
    digest: str
    verdict: str
    states: int
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demands:
    """What the user says of the production job. `mtbf_seconds` is the mean time between its failures,
    `interval_seconds` the time between two of its checkpoints (None: not known), `save_seconds` what a save costs there
    (None: as in the small job). `silent_share` is the largest share of corruptions that may stay silent."""

    mtbf_seconds: float | None = None
    save_seconds: float | None = None
    interval_seconds: float | None = None
    silent_share: float = 0.05


@dataclass(frozen=True)
class ReadinessEvidence:
    """`trials` by the name of the experiment in the battery, one of each suite. `standing` are the acceptances that are
    in force today. `costs` are those of the checkpoints of the uninterrupted runs."""

    job: str
    nodes: Nodes
    trials: Mapping[str, tuple[TriedExperiment, ...]]
    standing: tuple[Acceptance, ...] = ()
    costs: tuple[CheckpointCost, ...] = ()
    maps: tuple[SdcShare, ...] = ()
    crashes: tuple[CrashStudy, ...] = ()
    demands: Demands = field(default_factory=Demands)

    @property
    def runs(self) -> Mapping[str, StoredRun]:
        """Every run that counts, by id."""
        every = (one for trials in self.trials.values() for one in trials if not one.gap)
        return {run.id: run for one in every for run in one.runs}

    @property
    def ranks(self) -> int:
        """The largest number of ranks that the job ran on."""
        return max((run.ranks for run in self.runs.values()), default=0)
