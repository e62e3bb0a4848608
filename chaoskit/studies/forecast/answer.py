"""`Forecast`: what failures cost a large job, and what would help, with everything that the answer rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from chaoskit.studies.forecast.failures import Floats
from chaoskit.studies.forecast.improvements import Comparing, Gain, Sensitivity, improvements, sensitivity
from chaoskit.studies.forecast.inputs import ForecastRequest, Inputs, inputs
from chaoskit.studies.forecast.intervals import daly, young
from chaoskit.studies.forecast.measured import MeasuredJob
from chaoskit.studies.forecast.plan import HOUR, Plan
from chaoskit.studies.forecast.retention import RetentionCost, retention_cost, usual_policies
from chaoskit.studies.forecast.simulation import CAUSES, SAVES, Interruption, simulate
from chaoskit.validation import check_whole

#: Trials of each comparison, at most: the same failures strike both sides, so few suffice.
_COMPARED = 300
#: Checkpoint intervals that are tried around the one by formula.
_TRIED = 13
#: Intervals that differ by less than this share are the same.
_ALIKE = 0.02


@dataclass(frozen=True)
class TrialSpread:
    """The mean over the trials, its interval of 95 % (`low` to `high`), and the 5th and 95th percentile of the
    trials."""

    mean: float
    low: float
    high: float
    p5: float
    p95: float

    @classmethod
    def of(cls, found: Floats) -> TrialSpread:
        """Of one value for each trial."""
        mean, half = float(found.mean()), 1.96 * float(found.std()) / math.sqrt(len(found))
        p5, p95 = np.percentile(found, [5, 95])
        return cls(mean, mean - half, mean + half, float(p5), float(p95))


@dataclass(frozen=True)
class LossCause:
    """What one cause of loss costs: mean wall time in seconds, its share of all that is lost, and money."""

    name: str
    seconds: float
    share: float
    usd: float


@dataclass(frozen=True)
class Interval:
    """One checkpoint interval, and the mean share of time that trains with it by simulation."""

    seconds: float
    goodput: float


@dataclass(frozen=True)
class Intervals:
    """The checkpoint interval: `present`, by `young` and `daly` (None where nothing blocks or nothing fails) and by
    simulation, of which `tried` has all. `gain` is what the `best` one gains over the present one."""

    present: float
    young: float | None
    daly: float | None
    best: float
    tried: tuple[Interval, ...]
    gain: Gain | None


@dataclass(frozen=True)
class Forecast:
    """The answer. `uninterrupted` is the chance that nothing fails before the job is done, `finished` the share of
    trials that are done within ten times the training time. `days` is the wall time of the trials that are done.
    `each_seconds` is what one interruption costs on average. `month` has the failures of the first trial, whose first
    30 days last `month_seconds`: fewer if it is done before."""

    request: ForecastRequest
    measured: MeasuredJob | None
    inputs: Inputs
    trials: int
    seed: int
    uninterrupted: float
    finished: float
    interruptions: TrialSpread
    goodput: TrialSpread
    days: TrialSpread | None
    each_seconds: float
    causes: tuple[LossCause, ...]
    intervals: Intervals
    gains: tuple[Gain, ...]
    sensitivity: tuple[Sensitivity, ...]
    retention: tuple[RetentionCost, ...]
    month: tuple[Interruption, ...]
    month_seconds: float

    @property
    def plan(self) -> Plan:
        """The plan of today."""
        return self.inputs.plan

    def usd(self, seconds: float) -> float:
        """The price of so much wall time of the whole job."""
        return seconds / HOUR * self.request.gpus * self.inputs.price

    @property
    def lost_usd(self) -> float:
        """The money that is lost to all causes."""
        return sum(each.usd for each in self.causes)


def forecast(
    request: ForecastRequest, found: MeasuredJob | None = None, *, trials: int = 1000, seed: int = 0
) -> Forecast:
    """Make a forecast: simulate the plan of today, other intervals, the improvements, and inputs halved and doubled.

    Raises UsageError for numbers that cannot be, and for a job that would hardly ever be done.
    """
    check_whole("forecast", "trials", trials, least=20)
    taken = inputs(request, found)
    plan = taken.plan
    outcome = simulate(plan, trials=trials, seed=seed, trace=True)
    comparing = Comparing.of(plan, trials=min(trials, _COMPARED), seed=seed)
    intervals = _intervals(plan, comparing)
    done = np.isfinite(outcome.wall_seconds)
    lost = outcome.mean_lost()
    total = float(lost.sum())
    usd = request.gpus * taken.price / HOUR
    count = float(outcome.interruptions.mean())
    causes = tuple(
        LossCause(name, float(seconds), float(seconds) / total if total else 0.0, float(seconds) * usd)
        for name, seconds in zip(CAUSES, lost, strict=True)
    )
    policies = usual_policies(taken.keep, taken.delta_share, plan.checkpointing.interval_seconds)
    return Forecast(
        request,
        found,
        taken,
        trials,
        seed,
        uninterrupted(plan),
        outcome.finished,
        TrialSpread.of(outcome.interruptions.astype(np.float64)),
        TrialSpread.of(outcome.goodput),
        TrialSpread.of(outcome.wall_seconds[done] / 24 / HOUR) if done.any() else None,
        (total - float(lost[SAVES])) / count if count else 0.0,
        tuple(sorted(causes, key=lambda each: -each.seconds)),
        intervals,
        improvements(taken, comparing, best_interval=intervals.best),
        sensitivity(comparing, plan),
        tuple(
            retention_cost(each, plan, checkpoint_bytes=taken.checkpoint_bytes, price=taken.storage_price)
            for each in policies
        ),
        outcome.first,
        min(30 * 24 * HOUR, float(outcome.wall_seconds[0])),
    )


def uninterrupted(plan: Plan) -> float:
    """The chance that no component fails before the job is done: the product of their survivals, in closed form."""
    saves = plan.checkpointing
    writes = max(0, math.ceil(plan.work_seconds / saves.interval_seconds - 1e-9) - 1)
    hours = (plan.work_seconds * saves.stretch + writes * saves.blocking_seconds) / HOUR
    hazard = sum(plan.cluster.units(each) * (hours / each.scale_hours) ** each.shape for each in plan.failures)
    return math.exp(-hazard)


def _intervals(plan: Plan, comparing: Comparing) -> Intervals:
    present, held = plan.checkpointing.interval_seconds, plan.checkpointing.blocking_seconds
    mtbf = plan.mtbf_seconds
    known = held > 0 and mtbf < math.inf
    first, second = (young(held, mtbf), daly(held, mtbf)) if known else (None, None)
    middle = max(second or present, 1.0)
    tried = []
    gains = {}
    for each in sorted({*map(float, np.geomspace(middle / 8, middle * 8, _TRIED)), present}):
        changed = _with_interval(plan, each)
        short = _with_interval(comparing.plan, each)
        if short.gets_nowhere:
            tried.append(Interval(each, short.share))
            continue
        gains[each] = gain = comparing.gain("best interval", "", changed)
        tried.append(Interval(each, gain.goodput))
    best = max(gains, key=lambda each: (gains[each].seconds, each))
    if gains[best].low <= 0 or abs(math.log(best / present)) < _ALIKE:
        best = present  # no other one is better for certain
    return Intervals(present, first, second, best, tuple(tried), gains[best] if best != present else None)


def _with_interval(plan: Plan, seconds: float) -> Plan:
    return replace(plan, checkpointing=replace(plan.checkpointing, interval_seconds=seconds))
