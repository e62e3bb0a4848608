"""`simulate`: what failures make of a plan, in many trials side by side.

Each trial is one job. It trains and saves; each failure stops it, takes it back to its newest checkpoint, and costs
detection, nodes, a relaunch and a load. A failure during a recovery begins the recovery anew. The numbers of all trials
are arrays, and the failures are taken one after the other: the first of every trial, then the second. All times are
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from chaoskit.errors import UsageError
from chaoskit.studies.forecast.assumptions import duration
from chaoskit.studies.forecast.failures import FailureStream, Floats
from chaoskit.studies.forecast.intervals import daly
from chaoskit.studies.forecast.plan import HOUR, LONGEST, Plan
from chaoskit.validation import check_whole

#: Where time goes that does not become lasting training, in the order of an interruption.
CAUSES = (
    "saves", "lost work", "detection", "silent corruption", "waiting for nodes", "failed recoveries", "relaunch",
    "load", "repeated recoveries",
)  # fmt: skip
SAVES, LOST, DETECTION, SILENT, NODES, FAILED, RELAUNCH, LOAD, REPEATED = range(len(CAUSES))
#: So many trials are held at a time; more add time and no memory.
BLOCK = 1000
#: Failures of one trial in one window of time, on average.
_PER_WINDOW = 1000
#: More failures than this in all trials are not simulated.
MOST_FAILURES = 200_000_000
#: The most trials of one simulation.
MOST_TRIALS = 1_000_000


@dataclass(frozen=True)
class Interruption:
    """One failure of the first trial: when it struck, the number of its class, and the seconds that it cost, in the
    order of `CAUSES`."""

    at: float
    failure: int
    costs: tuple[float, ...]


@dataclass(frozen=True)
class SimulatedJobs:
    """What became of the trials: an entry for each. `wall_seconds` is the time until the job is done, infinite where it
    takes longer than `LONGEST` times its training time; `interruptions` is the number of failures until then;
    `lost_seconds` has a row for each of `CAUSES`. For a job that is done, the training time and all lost seconds are
    the wall time."""

    work_seconds: float
    wall_seconds: Floats
    interruptions: NDArray[np.int64]
    lost_seconds: Floats
    first: tuple[Interruption, ...] = ()

    @property
    def goodput(self) -> Floats:
        """The share of the wall time that became lasting training, for each trial; 0 where the job is never done."""
        return self.work_seconds / self.wall_seconds

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.wall_seconds)

    @property
    def finished(self) -> float:
        """The share of the trials whose job is done in time."""
        return float(np.isfinite(self.wall_seconds).mean())

    def mean_lost(self) -> Floats:
        """The mean seconds lost to each cause."""
        found: Floats = self.lost_seconds.mean(axis=1)
        return found


def simulate(plan: Plan, *, trials: int = 1000, seed: int = 0, trace: bool = False) -> SimulatedJobs:
    """Simulate a plan `trials` times. The same seed strikes the same components at the same times, whatever the
    checkpoints and the recovery are, so differences between two plans are theirs. With `trace`, every failure of the
    first trial is kept.

    Raises UsageError where the job would hardly ever be done, or fails too often to simulate.
    """
    check_whole("simulate", "trials", trials, least=1, most=MOST_TRIALS)
    check_whole("simulate", "seed", seed, least=0, most=2**63)
    must_finish(plan, trials)
    seeds = np.random.SeedSequence(seed).spawn(ceil(trials / BLOCK))
    blocks = [
        _Block(plan, min(BLOCK, trials - at * BLOCK), one, trace=trace and not at).run()
        for at, one in enumerate(seeds)
    ]
    return replace(
        blocks[0],
        wall_seconds=np.concatenate([each.wall_seconds for each in blocks]),
        interruptions=np.concatenate([each.interruptions for each in blocks]),
        lost_seconds=np.concatenate([each.lost_seconds for each in blocks], axis=1),
    )


def must_finish(plan: Plan, trials: int) -> None:
    """Raise UsageError where the job would hardly ever be done, or fails too often to simulate."""
    mtbf = plan.mtbf_seconds
    if plan.gets_nowhere:
        held, interval = plan.checkpointing.blocking_seconds, plan.checkpointing.interval_seconds
        best = max(1.0, daly(held, mtbf) if held else mtbf / 10)
        other = replace(plan, checkpointing=replace(plan.checkpointing, interval_seconds=best))
        shorter = f"--interval {best:.0f}s, " if best < interval and other.share >= 2 / LONGEST else ""
        raise UsageError(
            f"forecast: the job fails every {duration(mtbf)} on average, needs {duration(plan.restart_seconds)} for a "
            f"recovery and saves every {duration(interval)}: it would hardly ever be done. Give {shorter}a larger "
            "--mtbf-gpu-hours, fewer --gpus, or a faster recovery (--assume)"
        )
    if plan.lacks_nodes:
        raise UsageError(
            f"forecast: while one lost node is repaired ({duration(plan.cluster.repair_hours * HOUR)}), "
            f"{plan.lost_in_repair:,.0f} more are lost, and there are {plan.cluster.spares} spares: the job would "
            "hardly ever be done. Give more spares, a shorter repair or elastic=yes (--assume), or a larger "
            "--mtbf-gpu-hours"
        )
    expected = plan.work_seconds / mtbf * trials
    if expected > MOST_FAILURES:
        raise UsageError(
            f"forecast: {expected:,.0f} failures would have to be simulated, and {MOST_FAILURES:,} are the most: give "
            "fewer --trials or --days"
        )


class _Block:
    """Up to `BLOCK` trials."""

    def __init__(self, plan: Plan, trials: int, seed: np.random.SeedSequence, *, trace: bool) -> None:
        struck, drawn = (np.random.default_rng(one) for one in seed.spawn(2))
        self._plan, self._trials, self._draws = plan, trials, drawn
        units = [plan.cluster.units(each) for each in plan.failures]
        self._stream = FailureStream(plan.failures, units, trials=trials, generator=struck)
        self._up = np.zeros(trials)
        self._done = np.zeros(trials)
        self._wall = np.full(trials, np.inf)
        self._finish = self._finished_at()
        self._count = np.zeros(trials, np.int64)
        self._lost = np.zeros((len(CAUSES), trials))
        self._free = np.zeros((trials, plan.cluster.spares))
        self._next = np.zeros(trials, np.int64)
        self._trace: list[Interruption] | None = [] if trace else None
        recovery = plan.recovery
        seconds = {"crash": recovery.crash_seconds, "hang": recovery.hang_seconds}
        self._detection = np.array([seconds.get(each.symptom, 0.0) for each in plan.failures] or [0.0])
        self._nodes = np.array([each.nodes_lost for each in plan.failures] or [0])
        self._many = sorted({each.nodes_lost for each in plan.failures} - {0})
        self._silent = np.array([each.symptom == "silent" for each in plan.failures] or [False])
        saves = plan.checkpointing
        whole = saves.blocking_seconds + saves.background_seconds
        # Who is told early enough saves before it goes.
        saved = [each.symptom == "notice" and recovery.notice_seconds >= whole for each in plan.failures]
        self._saved = np.array(saved or [False])
        # A copy in the memory of another node is lost with the rack, and holds what was wrong already.
        kept = [each.unit != "rack" and each.symptom != "silent" for each in plan.failures]
        self._in_memory = np.array(kept or [False])

    def run(self) -> SimulatedJobs:
        """Take windows of time until every job is done, or has taken too long."""
        work = self._plan.work_seconds
        rate = self._plan.failures_per_second
        window = min(work, _PER_WINDOW / rate) if rate else work
        end, longest = 0.0, work * LONGEST
        while end < longest and np.isfinite(self._finish).any():
            end = min(end + window, longest)
            times, kinds = (np.ascontiguousarray(each.T) for each in self._stream.until(end))
            failed = self._draws.random(times.shape)
            found = self._draws.standard_exponential(times.shape)
            for own in zip(times, kinds, failed, found, strict=True):
                self._strike(*own)
            self._close(self._finish <= end)
        return SimulatedJobs(work, self._wall, self._count, self._lost, tuple(self._trace or ()))

    def _finished_at(self) -> Floats:
        """When each job is done if nothing more fails."""
        saves = self._plan.checkpointing
        left = self._plan.work_seconds - self._done
        writes = np.maximum(np.ceil(left / saves.interval_seconds - 1e-9) - 1, 0)
        found: Floats = self._up + left * saves.stretch + writes * saves.blocking_seconds
        return found

    def _close(self, ended: NDArray[np.bool_]) -> None:
        """End these jobs: they are done."""
        if ended.any():
            self._wall[ended] = self._finish[ended]
            left = self._plan.work_seconds - self._done
            self._lost[SAVES, ended] += np.maximum(self._finish - self._up - left, 0.0)[ended]
            self._finish[ended] = np.inf

    def _strike(self, t: Floats, kind: NDArray[np.int64], failed: Floats, found: Floats) -> None:
        """Take one failure of each trial."""
        struck = np.isfinite(t)
        self._close(struck & (self._finish <= t))
        live = struck & np.isfinite(self._finish)
        if not live.any():
            return
        t = np.where(live, t, 0.0)
        running = live & (t >= self._up)
        progress, durable, saving = self._since(np.where(running, t - self._up, 0.0), kind)
        recovery, saves = self._plan.recovery, self._plan.checkpointing
        extra = recovery.extra_intervals * saves.interval_seconds
        kept = np.maximum(self._done + durable - extra, 0.0) if extra else self._done + durable
        lost = self._done + progress - kept
        silent = self._silent[kind]
        detection = np.where(silent, found * recovery.silent_hours * HOUR, self._detection[kind])
        nodes = self._waiting(live, t, detection, self._nodes[kind])
        fails = np.where(failed < recovery.failed_share, recovery.failed_seconds, 0.0)
        back = t + detection + nodes + fails + recovery.relaunch_seconds + recovery.load_seconds
        again = live & ~running
        self._done = np.where(running, kept, self._done)
        costs = np.empty_like(self._lost)
        costs[SAVES], costs[LOST] = saving, lost
        costs[DETECTION], costs[SILENT] = np.where(silent, 0.0, detection), np.where(silent, detection, 0.0)
        costs[NODES], costs[FAILED] = nodes, fails
        costs[RELAUNCH], costs[LOAD], costs[REPEATED] = recovery.relaunch_seconds, recovery.load_seconds, 0.0
        costs *= running
        np.maximum(costs, 0.0, out=costs)  # a difference of large times may be a rounding below
        costs[REPEATED] = np.where(again, np.maximum(back - self._up, 0.0), 0.0)
        self._lost += costs
        self._up = np.where(live, np.maximum(self._up, back), self._up)
        self._count += live
        self._finish = np.where(live, self._finished_at(), self._finish)
        if self._trace is not None and live[0]:
            self._trace.append(Interruption(float(t[0]), int(kind[0]), tuple(map(float, costs[:, 0]))))

    def _since(self, ran: Floats, kind: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """What became of the time since training went on: trained, of that kept by a checkpoint, and spent on saves."""
        saves = self._plan.checkpointing
        interval, stretch = saves.interval_seconds, saves.stretch
        cycle = interval * stretch + saves.blocking_seconds
        whole = np.floor(ran / cycle)
        progress = whole * interval + np.minimum(ran - whole * cycle, interval * stretch) / stretch
        written = whole
        if saves.background_seconds:
            written = np.clip(np.floor((ran - saves.background_seconds) / cycle), 0.0, whole)
        durable = written * interval
        if saves.memory_interval_seconds is not None:
            copied = np.floor(progress / saves.memory_interval_seconds) * saves.memory_interval_seconds
            durable = np.where(self._in_memory[kind], np.maximum(durable, copied), durable)
        durable = np.where(self._saved[kind], progress, durable)
        return progress, durable, ran - progress

    def _waiting(self, live: NDArray[np.bool_], t: Floats, detection: Floats, lost: NDArray[np.int64]) -> Floats:
        """For how long each job waits for nodes. A node that is lost is repaired and is then a spare; an elastic job
        goes on with the others meanwhile, which costs their share."""
        cluster = self._plan.cluster
        waits = np.zeros(self._trials)
        for many in self._many:
            rows = np.flatnonzero(live & (lost == many))
            struck = t[rows]
            ready = self._take(rows, many, struck + cluster.repair_hours * HOUR)
            wait = np.maximum(ready - struck - detection[rows], 0.0)
            waits[rows] = wait * (many / cluster.nodes if cluster.elastic else 1.0) + cluster.spare_seconds
        return waits

    def _take(self, rows: NDArray[np.int64], many: int, back: Floats) -> Floats:
        """Take so many spares, and return when the last of them is free. Every repair takes equally long, so spares
        become free in the order in which they were taken: `_free` is a ring, which `_next` goes round."""
        spares = self._free.shape[1]
        ready = back
        if many <= spares:
            ready = self._free[rows, (self._next[rows] + many - 1) % spares]
        for at in range(min(many, spares)):
            self._free[rows, (self._next[rows] + at) % spares] = back
        self._next[rows] += many
        return ready
