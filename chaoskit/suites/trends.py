"""`Trends`: which times of a chronicle became longer or shorter, told from the noise of nights and of machines.

Each experiment has a series of three times, on each machine: from a fault until the job was back (*recovery*), what a
launch took (*launch*), and all of it without waiting (*whole*). Only nights on which it passed count.

A busy night slows everything, so what is tested is a time relative to its night. Where at least `TOGETHER` experiments
were timed, a night is as slow as the median of them all, each relative to its own usual time, and that median is a
series of its own: what slows all experiments alike shows there, once. It, and experiments that had so many others
beside them on half of their nights at most, are taken relative to the pace of the night: the median of how long its
steps took. What shows by the clock less than half
as much counts for nothing, or an experiment would become slow when all others become fast.

`changepoint` tests each series. How alike neighbouring nights are is estimated from all series of a kind together. Over
all series there is one false change in a hundred chronicles at most, by Holm's correction (`ALPHA`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, get_args

from chaoskit.results import Result
from chaoskit.suites import changepoint
from chaoskit.suites.chronicle import Change, Chronicle, Track
from chaoskit.suites.noise import holm

Measure = Literal["recovery", "launch", "whole"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
#: The probability of any false change among all series.
ALPHA = 0.01
#: So many experiments tell how slow a night was, with none of them having much of a say.
TOGETHER = 5


@dataclass(frozen=True)
class Series:
    """One time over the nights. `name` is the experiment, empty for all of them together; `relative` is what is tested:
    logarithms, relative to each night."""

    job: str
    machine: str
    measure: Measure
    name: str
    nights: tuple[int, ...]
    seconds: tuple[float, ...]
    relative: tuple[float, ...]

    @property
    def alone(self) -> bool:
        """Whether it is of one experiment."""
        return bool(self.name)


@dataclass(frozen=True)
class LevelShift:
    """A series has another level from the night `at` on: `ratio` times the one before, relative to the nights, in the
    interval `low` to `high` (95 %). `before` and `after` are medians in seconds, by the clock; `chance` is how likely
    noise does this."""

    series: Series
    at: int
    ratio: float
    low: float
    high: float
    before: float
    after: float
    chance: float
    changes: tuple[Change, ...] = ()

    @property
    def slower(self) -> bool:
        """Whether it became slower."""
        return self.ratio > 1


@dataclass(frozen=True)
class Trends:
    """`shifts` are all that were found, in order of time; `tested` series were long enough, `short` ones too short to
    tell anything: it takes `needed` nights."""

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
        """What became slow the last time that it changed."""
        return tuple(shift for shift in self.latest if shift.slower)

    @property
    def faster(self) -> tuple[LevelShift, ...]:
        """What became fast the last time that it changed."""
        return tuple(shift for shift in self.latest if not shift.slower)


def trends(chronicle: Chronicle) -> Trends:
    """Of every series of the chronicle."""
    found = [one for job in chronicle.jobs for one in series(chronicle, job)]
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
        for shift in _shifts(one, max(chances[key], ALPHA / len(tested)), alike[_kind(one)], chronicle)
    ]
    short = [one for one in found if one not in tested]
    return Trends(tuple(sorted(shifts, key=lambda shift: shift.at)), tuple(tested), tuple(short), needed)


def series(chronicle: Chronicle, job: str) -> Iterator[Series]:
    """All series of a job: on each machine, of each measure, of all experiments together and of each alone."""
    tracks = chronicle.of_job(job)
    for machine in dict.fromkeys(night.machine for night in chronicle.nights):
        there = [at for at, night in enumerate(chronicle.nights) if night.machine == machine]
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
    """How slow each night was: the median of its times, each relative to the usual one of its experiment; nights with
    too few of them are left out."""
    nights: dict[int, list[float]] = {}
    for told in times.values():
        usual = median(told.values()) if told else 0.0
        for at, value in told.items():
            nights.setdefault(at, []).append(value - usual)
    return {at: median(values) for at, values in sorted(nights.items()) if len(values) >= fewest}


def _long_enough(found: Sequence[Series]) -> tuple[list[Series], int]:
    """As many as are long enough to pass the test at all, among so many; a longer series does not pay for those that
    are not. And how many nights that takes."""
    for length in sorted({len(one.nights) for one in found}):
        tested = [one for one in found if len(one.nights) >= length]
        needed = changepoint.fewest(level=ALPHA / len(tested))
        if needed <= length:
            return tested, needed
    return [], changepoint.fewest(level=ALPHA / max(len(found), 1))


def _shifts(one: Series, level: float, alike: float, chronicle: Chronicle) -> Iterator[LevelShift]:
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
            chronicle.changed(one.job, after=one.nights[step.at - 1], until=one.nights[step.at]),
        )  # fmt: skip


def _key(one: Series) -> str:
    return "\0".join((one.job, one.machine, one.measure, one.name))


def _kind(one: Series) -> tuple[str, str, str, bool]:
    """Series whose neighbouring nights are about as alike."""
    return one.job, one.machine, one.measure, one.alone
