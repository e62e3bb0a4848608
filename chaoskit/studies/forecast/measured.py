"""`MeasuredJob`: what a stored suite measured that a forecast needs. None stands for what it did not measure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from chaoskit.analysis.checkpoints.cost import CheckpointCost
from chaoskit.analysis.stats.wilson import wilson
from chaoskit.engine.result import Result
from chaoskit.studies.nights.suite import Suite

#: Codes of a job that did not come back by itself.
GAVE_UP = frozenset(
    ("hang", "crash-loop", "failure-policy-final", "restart-budget-spent", "exited-early", "torn-checkpoint")
)
#: A job that stops after this share of the timeout of its collectives has waited for it.
_WAITED = 0.8


@dataclass(frozen=True)
class MeasuredJob:
    """Medians over the experiments of suite `suite` of `created`, on `ranks` ranks.

    `cost` is what a checkpoint costs. `crash_seconds` is the time from a fault until all ranks had stopped, of
    `crashes` experiments in which no rank waited for the timeout of the job's collectives; `hang_seconds` is that
    timeout, or the longest such time of the others. `restart_seconds` is the time from there to the next
    step; `cold` says that every launch was as cold as on a cluster. Of `judged` experiments whose fault stopped the
    job, `failed` did not come back by themselves. `extra_intervals` is how many checkpoint intervals a resume lost
    because the job did not take its last valid checkpoint (a mean). `ended` says that the suite is complete.
    """

    suite: str
    created: str
    ended: bool
    experiments: int
    cost: CheckpointCost | None = None
    crash_seconds: float | None = None
    crashes: int = 0
    hang_seconds: float | None = None
    restart_seconds: float | None = None
    restarts: int = 0
    cold: bool = False
    judged: int = 0
    failed: int = 0
    extra_intervals: float | None = None

    @property
    def ranks(self) -> int | None:
        """The world size of the job that was measured."""
        return self.cost.ranks if self.cost is not None else None

    @property
    def failed_interval(self) -> tuple[float, float]:
        """The interval of 95 % of the share of recoveries that fail."""
        return wilson(self.failed, self.judged)

    @property
    def useful(self) -> bool:
        """Whether anything was measured that a forecast needs."""
        return self.cost is not None or self.crash_seconds is not None or self.judged > 0


def measured(suite: Suite) -> MeasuredJob:
    """Take from a suite what a forecast needs."""
    results = [one for one in suite.results if one.verdict in ("pass", "accepted", "fail") and not one.trouble]
    cost = next((one for one in suite.checkpoint_costs.values() if one.parts), None)
    struck = [one for one in results if _stopped(one) or _gave_up(one)]
    timeout = cost.give_up_seconds if cost is not None else None
    stops = [one.stopped_seconds for one in results if one.stopped_seconds is not None]
    waits = [seconds for seconds in stops if timeout is not None and seconds >= _WAITED * timeout]
    crashes = [seconds for seconds in stops if seconds not in waits]
    hangs = waits if timeout is None else [*waits, timeout]
    restarts = [
        one.recovery_seconds - one.stopped_seconds
        for one in results
        if one.recovery_seconds is not None and one.stopped_seconds is not None
        and one.recovery_seconds > one.stopped_seconds
    ]  # fmt: skip
    launched = {how for one in results for how in one.launched}
    return MeasuredJob(
        suite.id,
        suite.created,
        suite.status == "finished" and not any(one.is_unrun for one in suite.results),
        len(results),
        cost,
        median(crashes) if crashes else None,
        len(crashes),
        max(hangs, default=None),
        median(restarts) if restarts else None,
        len(restarts),
        bool(launched) and all(how.startswith("cold") for how in launched),
        len(struck),
        sum(map(_gave_up, struck)),
        _extra(results, cost),
    )


def _stopped(one: Result) -> bool:
    return one.stopped_seconds is not None or one.resumed_from is not None


def _gave_up(one: Result) -> bool:
    return one.verdict == "fail" and one.recovery_seconds is None and not GAVE_UP.isdisjoint(one.codes)


def _extra(results: Iterable[Result], cost: CheckpointCost | None) -> float | None:
    """The mean number of intervals between the last valid checkpoint and the one that was resumed from."""
    every = cost.interval_steps if cost is not None else None
    lags = [
        max(0, one.last_valid - one.resumed_from)
        for one in results
        if one.last_valid is not None and one.resumed_from is not None
    ]
    return sum(lags) / len(lags) / every if lags and every else None
