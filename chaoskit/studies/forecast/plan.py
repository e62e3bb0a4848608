"""`Plan`: a large job as the simulation takes it: the cluster, its checkpoints, its recovery, the failures."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoskit.errors import UsageError
from chaoskit.studies.forecast.intervals import training_share
from chaoskit.studies.forecast.presets import FailureClass
from chaoskit.validation import check_flag, check_number, check_whole

#: A job that takes longer than so many times its training time counts as never done.
LONGEST = 10.0
HOUR = 3600.0
_MOST_SECONDS = 3.2e9
#: Of so many lost nodes on average few jobs lose none.
_MANY = 20


@dataclass(frozen=True)
class Cluster:
    """The GPUs of the job, and what replaces a node that is lost. `spares` are nodes beside those of the job;
    `spare_seconds` is how long it takes until one has joined, `repair_hours` the time until a lost node is back. An
    `elastic` job trains on with fewer nodes where no spare is free; any other waits."""

    gpus: int
    gpus_per_node: int = 8
    nodes_per_rack: int = 4
    spares: int = 0
    spare_seconds: float = 0.0
    repair_hours: float = 24.0
    elastic: bool = False

    def __post_init__(self) -> None:
        check_whole("Cluster", "gpus", self.gpus, least=1, most=10_000_000)
        check_whole("Cluster", "gpus_per_node", self.gpus_per_node, least=1, most=1024)
        check_whole("Cluster", "nodes_per_rack", self.nodes_per_rack, least=1, most=1024)
        check_whole("Cluster", "spares", self.spares, least=0)
        check_number("Cluster", "spare_seconds", self.spare_seconds, least=0, most=_MOST_SECONDS)
        check_number("Cluster", "repair_hours", self.repair_hours, over=0, most=1e6)
        check_flag("Cluster", "elastic", self.elastic)
        if self.spares > self.nodes:
            raise UsageError(
                f"Cluster: spares={self.spares} are more than the {self.nodes} nodes of the job "
                f"({self.gpus} GPUs, {self.gpus_per_node} a node): give fewer spares"
            )

    @property
    def nodes(self) -> int:
        """The nodes of the job."""
        return -(-self.gpus // self.gpus_per_node)

    def units(self, failures: FailureClass) -> int:
        """How many components of a class the job has."""
        nodes = self.nodes
        return {"gpu": self.gpus, "node": nodes, "rack": -(-nodes // self.nodes_per_rack)}[failures.unit]


@dataclass(frozen=True)
class Checkpointing:
    """After each `interval_seconds` of training the job is held up for `blocking_seconds`; `background_seconds` later
    the checkpoint is whole. With `memory_interval_seconds`, it also keeps a copy in the memory of other nodes that
    often, which holds it up for `memory_seconds`, and which a failure of a rack does not leave."""

    interval_seconds: float
    blocking_seconds: float
    background_seconds: float = 0.0
    memory_interval_seconds: float | None = None
    memory_seconds: float = 0.0

    def __post_init__(self) -> None:
        where = "Checkpointing"
        check_number(where, "interval_seconds", self.interval_seconds, over=0, most=_MOST_SECONDS)
        for name in ("blocking_seconds", "background_seconds", "memory_seconds"):
            check_number(where, name, getattr(self, name), least=0, most=_MOST_SECONDS)
        if self.memory_interval_seconds is not None:
            check_number(where, "memory_interval_seconds", self.memory_interval_seconds, over=0, most=_MOST_SECONDS)

    @property
    def stretch(self) -> float:
        """How much longer a second of training takes with the copies in memory."""
        each = self.memory_interval_seconds
        return 1.0 if each is None else 1.0 + self.memory_seconds / each


@dataclass(frozen=True)
class RecoveryCosts:
    """From a failure to the next new step. `crash_seconds` and `hang_seconds` pass until the job has stopped, by how
    the ranks learn of the failure; `silent_hours` (a mean) until somebody finds corrupted numbers. Then come
    `relaunch_seconds` and `load_seconds`. A share `failed_share` of the recoveries fails and costs
    `failed_seconds` more, such as the time of a person. `extra_intervals` is how many further checkpoint
    intervals each resume loses because the job does not take its newest checkpoint. `notice_seconds` is how long before
    a reclaim the node is told."""

    crash_seconds: float
    hang_seconds: float
    relaunch_seconds: float
    load_seconds: float
    silent_hours: float = 0.0
    failed_share: float = 0.0
    failed_seconds: float = 0.0
    extra_intervals: float = 0.0
    notice_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("crash_seconds", "hang_seconds", "relaunch_seconds", "load_seconds", "failed_seconds",
                     "notice_seconds"):  # fmt: skip
            check_number("RecoveryCosts", name, getattr(self, name), least=0, most=_MOST_SECONDS)
        check_number("RecoveryCosts", "silent_hours", self.silent_hours, least=0, most=1e6)
        check_number("RecoveryCosts", "failed_share", self.failed_share, least=0, most=1)
        check_number("RecoveryCosts", "extra_intervals", self.extra_intervals, least=0, most=1000)


@dataclass(frozen=True)
class Plan:
    """A job that needs `days` of training on `cluster` if nothing fails."""

    days: float
    cluster: Cluster
    checkpointing: Checkpointing
    recovery: RecoveryCosts
    failures: tuple[FailureClass, ...] = field(default=())

    def __post_init__(self) -> None:
        check_number("Plan", "days", self.days, over=0, most=36_500)
        racks = [each for each in self.failures if each.nodes_lost > self.cluster.nodes]
        if racks:
            raise UsageError(
                f"Plan: each failure of a {racks[0].unit} takes {racks[0].nodes_lost} nodes, and the job has "
                f"{self.cluster.nodes}: give fewer nodes a rack, or more GPUs"
            )

    @property
    def work_seconds(self) -> float:
        """The training time without failures and saves."""
        return self.days * 24 * HOUR

    @property
    def failures_per_second(self) -> float:
        """The mean rate of all failures during the training time."""
        return sum(self._rate(each) for each in self.failures)

    def _rate(self, failures: FailureClass) -> float:
        return self.cluster.units(failures) * failures.expected(self.days * 24) / (self.days * 24 * HOUR)

    @property
    def mtbf_seconds(self) -> float:
        """The mean time between failures of the job; infinite without any."""
        rate = self.failures_per_second
        return 1 / rate if rate else float("inf")

    @property
    def losses(self) -> float:
        """How many nodes are lost during the training time, on average."""
        return self.work_seconds * sum(self._rate(each) * each.nodes_lost for each in self.failures)

    @property
    def lost_in_repair(self) -> float:
        """How many nodes are lost while one is repaired, on average."""
        return self.losses * self.cluster.repair_hours * HOUR / self.work_seconds

    @property
    def lacks_nodes(self) -> bool:
        """Whether so many nodes are lost, and repaired so slowly, that waiting for them takes longer than `LONGEST`
        times the training time. An elastic job does not wait."""
        slow = self.lost_in_repair > LONGEST * max(1, self.cluster.spares)
        return slow and self.losses > _MANY and not self.cluster.elastic

    @property
    def gets_nowhere(self) -> bool:
        """Whether failures come faster than the job can save and recover."""
        return self.share < 2 / LONGEST and self.work_seconds > self.mtbf_seconds

    @property
    def restart_seconds(self) -> float:
        """The mean time from a failure to the next step, where spares are free."""
        own = self.recovery
        rate = self.failures_per_second
        seconds = {"crash": own.crash_seconds, "hang": own.hang_seconds, "silent": own.silent_hours * HOUR}
        mean = sum(
            self._rate(each) / rate
            * (seconds.get(each.symptom, 0.0) + (self.cluster.spare_seconds if each.nodes_lost else 0.0))
            for each in self.failures
        )  # fmt: skip
        return mean + own.failed_share * own.failed_seconds + own.relaunch_seconds + own.load_seconds

    @property
    def share(self) -> float:
        """The share of wall time that trains, by Daly's closed form: a first estimate, for memoryless failures and
        checkpoints that block."""
        saves, rate = self.checkpointing, self.failures_per_second
        if not rate:
            return saves.interval_seconds / (saves.interval_seconds * saves.stretch + saves.blocking_seconds)
        step = min(saves.interval_seconds, self.work_seconds) * saves.stretch
        found = training_share(step, saves.blocking_seconds, self.restart_seconds, 1 / rate)
        return found / saves.stretch
