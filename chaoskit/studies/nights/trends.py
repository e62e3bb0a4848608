"""`Trends`: detects which times of a history became longer or shorter, despite the noise of nights and machines.

Each experiment has series of three times on each machine: from a fault to the next step (*recovery*), from the start of
a launch to its first step (*launch*), and the experiment without waiting (*whole*). Only nights with a pass count.

A busy night slows everything, so a time is tested relative to its night. If at least `TOGETHER` experiments were timed,
the level of a night is the median of all experiments, each relative to its own usual time. This median is itself a
series, which shows what slows all experiments. That series, and experiments with too few others on more than half of
their nights, are taken relative to the pace of the night: the median of its step times. A shift that is less than half
as large in wall time does not count; otherwise an experiment would seem slower when all others become faster.

`changepoint` tests each series. The correlation of neighbouring nights is estimated from all series of a kind together.
With Holm's correction the probability of any false change in a history is at most `ALPHA`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, get_args

from chaoskit.analysis.stats import changepoint
from chaoskit.analysis.stats.signed_rank import holm
from chaoskit.engine.result import Result
from chaoskit.studies.nights.suite_history import SettingChange, SuiteHistory, Track

Measure = Literal["recovery", "launch", "whole"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
#: The probability of any false change among all series.
ALPHA = 0.01
#: The number of experiments needed to estimate the level of a night.
TOGETHER = 5


@dataclass(frozen=True)
class Series:
    """One time over the nights. `name` is the experiment, empty for all together; `relative` are the tested values:
    logarithms relative to each night."""

    job: str
    machine: str
    measure: Measure
    name: str
    nights: tuple[int, ...]
    seconds: tuple[float, ...]
    relative: tuple[float, ...]

    @property
    def alone(self) -> bool:
        """Whether it is the series of one experiment."""
        return bool(self.name)


@dataclass(frozen=True)
class LevelShift:
    """A change of the level of a series in the night `at`: by `ratio`, adjusted for the nights, with the 95 % interval
    `low` to `high`. `before` and `after` are medians of the wall time in seconds; `chance` is the p-value."""

    series: Series
    at: int
    ratio: float
    low: float
    high: float
    before: float
    after: float
    chance: float
    changes: tuple[SettingChange, ...] = ()

    @property
    def slower(self) -> bool:
        """Whether the time became longer."""
        return self.ratio > 1


@dataclass(frozen=True)
class Trends:
    """`shifts` are all detected shifts in chronological order; `tested` series were long enough, `short` ones have less
    than `needed` nights."""

    shifts: tuple[LevelShift, ...]
    tested: tuple[Series, ...]
    short: tuple[Series, ...]
    needed: int

    @property
    def latest(self) -> tuple[LevelShift, ...]:
        """The last shift of each series."""
        return tuple({_key(shift.series): shift for shift in self.shifts}.values())

    @property
    def slower(self) -> tuple[LevelShift, ...]:
        """The last shifts that are slower."""
        return tuple(shift for shift in self.latest if shift.slower)

    @property
    def faster(self) -> tuple[LevelShift, ...]:
        """The last shifts that are faster."""
        return tuple(shift for shift in self.latest if not shift.slower)


def trends(history: SuiteHistory) -> Trends:
    """Test every series of the history."""
    found = [one for job in history.jobs for one in series(history, job)]
    tested, needed = _long_enough(found)
    alike = {
        kind: changepoint.likeness(one.relative for one in tested if _kind(one) == kind)
        for kind in {_kind(one) for one in tested}
    }
    steps = {_key(one): changepoint.step(one.relative, alike=alike[_kind(one)]) for one in tested}
    chances = {key: step.chance for key, step in steps.items() if step is not None}
    rejected = holm(chances, alpha=ALPHA)
    shifts = [
        shift
        for one in tested
        if (key := _key(one)) in rejected
        for shift in _shifts(one, max(chances[key], ALPHA / len(tested)), alike[_kind(one)], history)
    ]
    short = [one for one in found if one not in tested]
    return Trends(tuple(sorted(shifts, key=lambda shift: shift.at)), tuple(tested), tuple(short), needed)


def series(history: SuiteHistory, job: str) -> Iterator[Series]:
    """Yield all series of a job: for each machine and measure, of all experiments together and of each one."""
    tracks = history.of_job(job)
    for machine in dict.fromkeys(night.machine for night in history.nights):
        there = [at for at, night in enumerate(history.nights) if night.machine == machine]
        pace = _course({track.name: _times(track, there, _step) for track in tracks}, fewest=1)
        for measure in MEASURES:
            times = {track.name: _times(track, there, READINGS[measure]) for track in tracks}
            times = {name: told for name, told in times.items() if told}
            course = _course(times, fewest=TOGETHER)
            usual = median(median(told.values()) for told in times.values()) if times else 0.0
            whole = {at: usual + slow for at, slow in course.items()}
            for name, logs in {"": whole, **times}.items():
                night = course if name and 2 * len(course.keys() & logs) > len(logs) else pace
                nights = tuple(at for at in logs if not night or at in night)
                if nights:
                    relative = tuple(logs[at] - night.get(at, 0.0) for at in nights)
                    seconds = tuple(math.exp(logs[at]) for at in nights)
                    yield Series(job, machine, measure, name, nights, seconds, relative)


def _step(result: Result) -> float | None:
    return result.step_seconds


def _whole(result: Result) -> float | None:
    return None if result.seconds is None else result.seconds - result.waited_seconds


#: How the time of each measure is read off a result, in seconds.
READINGS: Mapping[Measure, Callable[[Result], float | None]] = {
    "recovery": lambda result: result.recovery_seconds,
    "launch": lambda result: result.launch_seconds,
    "whole": _whole,
}


def _times(track: Track, nights: Iterable[int], read: Callable[[Result], float | None]) -> dict[int, float]:
    """Logarithms, by night."""
    told = {}
    for at in nights:
        result = track.results[at]
        value = read(result) if result is not None and result.verdict == "pass" else None
        if value is not None and 0 < value < math.inf:
            told[at] = math.log(value)
    return told


def _course(times: Mapping[str, Mapping[int, float]], *, fewest: int) -> dict[int, float]:
    """Return the level of each night: the median of its times, each relative to the usual time of its experiment;
    nights with fewer than `fewest` times are omitted."""
    nights: dict[int, list[float]] = {}
    for told in times.values():
        usual = median(told.values()) if told else 0.0
        for at, value in told.items():
            nights.setdefault(at, []).append(value - usual)
    return {at: median(values) for at, values in sorted(nights.items()) if len(values) >= fewest}


def _long_enough(found: Sequence[Series]) -> tuple[list[Series], int]:
    """Return the series that are long enough for a significant result, given their number, and the nights needed.
    Shorter series do not count in the correction."""
    for length in sorted({len(one.nights) for one in found}):
        tested = [one for one in found if len(one.nights) >= length]
        needed = changepoint.fewest(level=ALPHA / len(tested))
        if needed <= length:
            return tested, needed
    return [], changepoint.fewest(level=ALPHA / max(len(found), 1))


def _shifts(one: Series, level: float, alike: float, history: SuiteHistory) -> Iterator[LevelShift]:
    found = changepoint.steps(one.relative, level=level, alike=alike)
    edges = [0, *(step.at for step in found), len(one.nights)]
    logs = [math.log(seconds) for seconds in one.seconds]
    for step, first, last in zip(found, edges, edges[2:], strict=False):
        off = changepoint.difference(one.relative[first : step.at], one.relative[step.at : last])
        clock = changepoint.difference(logs[first : step.at], logs[step.at : last])
        if off.value == 0 or clock.value / off.value < 0.5:
            continue
        yield LevelShift(
            one, one.nights[step.at], math.exp(off.value), math.exp(off.low), math.exp(off.high),
            median(one.seconds[first : step.at]), median(one.seconds[step.at : last]), step.chance,
            history.changed(one.job, after=one.nights[step.at - 1], until=one.nights[step.at]),
        )  # fmt: skip


def _key(one: Series) -> str:
    return "\0".join((one.job, one.machine, one.measure, one.name))


def _kind(one: Series) -> tuple[str, str, str, bool]:
    """Return the kind of a series; series of a kind share an estimate of the correlation."""
    return one.job, one.machine, one.measure, one.alone
