"""The document of `chaoskit forecast --json`: its schema, and how it is made. Times are seconds, shares from 0 to 1."""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypedDict

from chaoskit.schema import Count, Range
from chaoskit.studies.forecast.answer import Forecast, TrialSpread
from chaoskit.studies.forecast.improvements import Gain
from chaoskit.studies.forecast.inputs import Origin
from chaoskit.studies.forecast.sentences import footing, summary
from chaoskit.studies.forecast.simulation import CAUSES

Share = Annotated[float, Range(0, 1)]
Time = Annotated[float, Range(0, 1e15)]
#: Of these many failures of the first trial the document has the times.
MOST_SHOWN = 1000


class AskedFor(TypedDict):
    """What the user asked for."""

    gpus: Count
    days: float
    failures: str
    mtbf_gpu_hours: float
    price_usd: float


class UsedSuite(TypedDict):
    """The suite whose measurements were used."""

    id: str
    created: str
    ended: bool
    experiments: Count
    ranks: Count | None


class UsedFigure(TypedDict):
    """A number that the forecast takes."""

    name: str
    text: str
    value: float
    shown: str
    origin: Origin
    source: str
    change: str


class SpreadOfTrials(TypedDict):
    """A mean over the trials, its interval of 95 %, and the 5th and the 95th percentile."""

    mean: float
    low: float
    high: float
    p5: float
    p95: float


class LostTo(TypedDict):
    """What one cause costs: mean seconds of wall time."""

    name: str
    seconds: Time
    share: Share
    usd: float


class Gained(TypedDict):
    """What a change gains: wall time and money, with the interval of 95 %."""

    name: str
    change: str
    seconds: float
    usd: float
    usd_low: float
    usd_high: float
    goodput: Share


class TriedInterval(TypedDict):
    """A checkpoint interval, and the share of time that trains with it."""

    seconds: Time
    goodput: Share


class IntervalAnswer(TypedDict):
    """The checkpoint interval."""

    present: Time
    young: Time | None
    daly: Time | None
    best: Time
    tried: list[TriedInterval]
    gain: Gained | None


class InputVaried(TypedDict):
    """The share of time that trains with half of an input, and twice."""

    name: str
    half: Share
    double: Share


class RetentionAnswer(TypedDict):
    """A policy of retention, its storage and its worst losses; null: all work."""

    name: str
    keep: Count
    full_every: Count
    delta_share: Share
    held_bytes: float
    written_bytes_a_month: float
    usd_a_month: float
    worst_loss: Time
    worst_loss_damaged: Time | None
    reach: Time
    silent_out_of_reach: Share


class StruckAt(TypedDict):
    """A failure of the first trial, and the seconds that it cost by cause."""

    at: Time
    failure: str
    costs: dict[str, float]


class ForecastDocument(TypedDict):
    """The whole document."""

    schema: Literal[1]
    sentence: str
    footing: str
    asked: AskedFor
    suite: UsedSuite | None
    figures: list[UsedFigure]
    trials: Count
    seed: Count
    uninterrupted: Share
    finished: Share
    interruptions: SpreadOfTrials
    goodput: SpreadOfTrials
    days: SpreadOfTrials | None
    interruption_seconds: Time
    lost_usd: float
    causes: list[LostTo]
    interval: IntervalAnswer
    improvements: list[Gained]
    sensitivity: list[InputVaried]
    retention: list[RetentionAnswer]
    first_trial: list[StruckAt]


def document(found: Forecast) -> ForecastDocument:
    """Make the document of a forecast."""
    asked, used, each = found.request, found.measured, found.intervals
    classes = found.plan.failures
    return {
        "schema": 1,
        "sentence": summary(found),
        "footing": footing(found),
        "asked": {
            "gpus": asked.gpus, "days": float(asked.days), "failures": asked.failures, "price_usd": found.inputs.price,
            "mtbf_gpu_hours": found.inputs.figure("mtbf-gpu-hours").value,
        },
        "suite": None if used is None else {
            "id": used.suite, "created": used.created, "ended": used.ended, "experiments": used.experiments,
            "ranks": used.ranks,
        },
        "figures": [
            {
                "name": one.name, "text": one.text, "value": one.value, "shown": one.shown, "origin": one.origin,
                "source": one.source, "change": one.change,
            }
            for one in found.inputs.figures
        ],
        "trials": found.trials,
        "seed": found.seed,
        "uninterrupted": found.uninterrupted,
        "finished": found.finished,
        "interruptions": _spread(found.interruptions),
        "goodput": _spread(found.goodput),
        "days": _spread(found.days) if found.days is not None else None,
        "interruption_seconds": found.each_seconds,
        "lost_usd": found.lost_usd,
        "causes": [
            {"name": one.name, "seconds": one.seconds, "share": min(1.0, one.share), "usd": one.usd}
            for one in found.causes
        ],
        "interval": {
            "present": each.present, "young": each.young, "daly": each.daly, "best": each.best,
            "tried": [{"seconds": one.seconds, "goodput": one.goodput} for one in each.tried],
            "gain": _gained(found, each.gain) if each.gain is not None else None,
        },
        "improvements": [_gained(found, one) for one in found.gains],
        "sensitivity": [{"name": one.name, "half": one.half, "double": one.double} for one in found.sensitivity],
        "retention": [
            {
                "name": one.policy.name, "keep": one.policy.keep, "full_every": one.policy.full_every,
                "delta_share": one.policy.delta_share, "held_bytes": one.held_bytes,
                "written_bytes_a_month": one.written_bytes, "usd_a_month": one.month_usd, "worst_loss": one.crash,
                "worst_loss_damaged": one.damaged if math.isfinite(one.damaged) else None,
                "reach": one.reach_seconds, "silent_out_of_reach": one.out_of_reach,
            }
            for one in found.retention
        ],
        "first_trial": [
            {"at": one.at, "failure": classes[one.failure].name, "costs": _costs(one.costs)}
            for one in found.month[:MOST_SHOWN]
        ],
    }  # fmt: skip


def _spread(found: TrialSpread) -> SpreadOfTrials:
    return {"mean": found.mean, "low": found.low, "high": found.high, "p5": found.p5, "p95": found.p95}


def _gained(found: Forecast, gain: Gain) -> Gained:
    return {
        "name": gain.name, "change": gain.change, "seconds": gain.seconds, "usd": found.usd(gain.seconds),
        "usd_low": found.usd(gain.low), "usd_high": found.usd(gain.high), "goodput": gain.goodput,
    }  # fmt: skip


def _costs(seconds: tuple[float, ...]) -> dict[str, float]:
    return {name: each for name, each in zip(CAUSES, seconds, strict=True) if each}
