"""What each improvement of the job or its cluster buys: the same failures, simulated with it and without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from chaoskit.studies.forecast.inputs import Inputs
from chaoskit.studies.forecast.plan import Plan
from chaoskit.studies.forecast.simulation import SimulatedJobs, simulate

#: So many failures of a trial show what a change is worth; longer jobs are shortened to them.
_FAILURES = 400
_Z = 1.96


@dataclass(frozen=True)
class Gain:
    """What a change gains over the whole job: a mean of `seconds` of wall time, with its interval of 95 %, and the mean
    share of time that trains with it. `change` says what was changed."""

    name: str
    change: str
    seconds: float
    low: float
    high: float
    goodput: float


@dataclass(frozen=True)
class Comparing:
    """Simulates changes of `plan` beside it, under the same failures. `scale` is how much longer the job is than what
    is simulated: a long job without ageing components is shortened."""

    plan: Plan
    trials: int
    seed: int
    scale: float
    base: SimulatedJobs

    @classmethod
    def of(cls, plan: Plan, *, trials: int, seed: int) -> Comparing:
        """Simulate the plan itself."""
        expected = plan.work_seconds / plan.mtbf_seconds
        ages = any(each.shape != 1.0 for each in plan.failures)
        scale = 1.0 if ages or expected <= _FAILURES else expected / _FAILURES
        short = replace(plan, days=plan.days / scale)
        return cls(short, trials, seed, scale, simulate(short, trials=trials, seed=seed))

    def with_change(self, changed: Plan) -> SimulatedJobs:
        """Simulate a changed plan, shortened alike."""
        return simulate(replace(changed, days=self.plan.days), trials=self.trials, seed=self.seed)

    def gain(self, name: str, change: str, changed: Plan) -> Gain:
        """Compare a changed plan with the plan, trial by trial."""
        outcome = self.with_change(changed)
        longest = 10 * self.plan.work_seconds
        before, after = (np.minimum(each.wall_seconds, longest) for each in (self.base, outcome))
        differences = (before - after) * self.scale
        mean = float(differences.mean())
        half = _Z * float(differences.std()) / len(differences) ** 0.5
        return Gain(name, change, mean, mean - half, mean + half, float(outcome.goodput.mean()))


def improvements(inputs: Inputs, comparing: Comparing, *, best_interval: float) -> tuple[Gain, ...]:
    """Return the gains of the usual improvements, the largest first; those that change nothing are left out."""
    found = [comparing.gain(name, change, changed) for name, change, changed in _changes(inputs, best_interval)]
    return tuple(sorted((each for each in found if each.seconds), key=lambda each: -each.seconds))


def _changes(inputs: Inputs, best_interval: float) -> Iterator[tuple[str, str, Plan]]:
    plan = inputs.plan
    saves, recovery, cluster = plan.checkpointing, plan.recovery, plan.cluster
    if best_interval != saves.interval_seconds:
        change = f"save every {best_interval / 60:,.3g} min instead of {saves.interval_seconds / 60:,.3g}"
        yield "best interval", change, _saving(plan, interval_seconds=best_interval)
    half = {name: getattr(recovery, name) / 2 for name in ("crash_seconds", "hang_seconds", "silent_hours")}
    if any(half.values()):
        yield "half the detection", "every failure is detected in half the time", _recovering(plan, **half)
    if inputs.asynchronous.blocking_seconds < saves.blocking_seconds:
        text = f"a save holds up the steps for {inputs.asynchronous.blocking_seconds:,.3g} s"
        yield "asynchronous saves", text, replace(plan, checkpointing=inputs.asynchronous)
    if any(each.nodes_lost for each in plan.failures):
        spares = min(cluster.nodes, max(2 * cluster.spares, 2))
        text = f"{spares} spare nodes that join at once, instead of {cluster.spares}"
        yield "hot spares", text, replace(plan, cluster=replace(cluster, spares=spares, spare_seconds=0.0))
        if not cluster.elastic:
            text = "train on with fewer nodes where no spare is free"
            yield "elastic shrink", text, replace(plan, cluster=replace(cluster, elastic=True))
    if inputs.warm_relaunch_seconds < recovery.relaunch_seconds:
        text = f"keep the processes: {inputs.warm_relaunch_seconds:,.3g} s instead of {recovery.relaunch_seconds:,.3g}"
        yield "warm restarts", text, _recovering(plan, relaunch_seconds=inputs.warm_relaunch_seconds)
    if recovery.failed_share:
        yield "no failed recovery", "every recovery needs nobody", _recovering(plan, failed_share=0.0)
    if recovery.extra_intervals:
        yield "newest checkpoint", "resume from the newest valid one", _recovering(plan, extra_intervals=0.0)


def _saving(plan: Plan, **changed: float) -> Plan:
    return replace(plan, checkpointing=replace(plan.checkpointing, **changed))


def _recovering(plan: Plan, **changed: float) -> Plan:
    return replace(plan, recovery=replace(plan.recovery, **changed))


@dataclass(frozen=True)
class Sensitivity:
    """The mean share of time that trains where one input is half, and twice, what the forecast takes."""

    name: str
    half: float
    double: float


def sensitivity(comparing: Comparing, plan: Plan) -> tuple[Sensitivity, ...]:
    """Return how far each input moves the result, the strongest first. One that makes the job hopeless counts as 0."""
    found = [Sensitivity(name, *(_share(comparing, vary, by) for by in (0.5, 2.0))) for name, vary in _varied(plan)]
    return tuple(sorted(found, key=lambda each: -abs(each.double - each.half)))


def _share(comparing: Comparing, vary: Callable[[float], Plan], by: float) -> float:
    changed = replace(vary(by), days=comparing.plan.days)
    if changed.gets_nowhere or changed.lacks_nodes:
        return 0.0
    return float(comparing.with_change(changed).goodput.mean())


def _varied(plan: Plan) -> Iterator[tuple[str, Callable[[float], Plan]]]:
    saves, recovery = plan.checkpointing, plan.recovery

    def rarer(by: float) -> Plan:
        classes = tuple(replace(each, mtbf_hours=each.mtbf_hours * by) for each in plan.failures)
        return replace(plan, failures=classes)

    def detected(by: float) -> Plan:
        names = ("crash_seconds", "hang_seconds", "silent_hours")
        return _recovering(plan, **{name: getattr(recovery, name) * by for name in names})

    yield "time between failures", rarer
    yield "checkpoint interval", lambda by: _saving(plan, interval_seconds=saves.interval_seconds * by)
    if saves.blocking_seconds:
        yield "time that a save blocks", lambda by: _saving(plan, blocking_seconds=saves.blocking_seconds * by)
    yield "detection", detected
    yield "relaunch", lambda by: _recovering(plan, relaunch_seconds=recovery.relaunch_seconds * by)
    yield "load", lambda by: _recovering(plan, load_seconds=recovery.load_seconds * by)
    if any(each.nodes_lost for each in plan.failures):
        yield (
            "repair of nodes",
            lambda by: replace(plan, cluster=replace(plan.cluster, repair_hours=plan.cluster.repair_hours * by)),
        )
    if recovery.failed_share:
        yield "failed recoveries", lambda by: _recovering(plan, failed_share=min(1.0, recovery.failed_share * by))
