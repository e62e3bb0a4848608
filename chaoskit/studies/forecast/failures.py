"""`FailureStream`: when which component of a cluster fails, in many trials at once.

The components of a class are a pool of renewal processes: each is new at the start, and new again after its failure.
The pool is drawn exactly, in windows of time. Of components that have not failed yet, the number that fails in a window
is binomial, and their times follow the distribution of lifetimes between its ends. Each that failed gets a new
lifetime. Exponential lifetimes have no memory, so their pool is a Poisson process.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chaoskit.studies.forecast.plan import HOUR
from chaoskit.studies.forecast.presets import FailureClass

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class FailureStream:
    """The failures of `classes`, with so many components each, in `trials` trials. Call `until` with later times only.
    Times are seconds."""

    def __init__(
        self, classes: Sequence[FailureClass], units: Sequence[int], *, trials: int, generator: np.random.Generator
    ) -> None:
        self._pools = [_Pool(one, count, trials, generator) for one, count in zip(classes, units, strict=True)]
        self._trials = trials

    def until(self, end: float) -> tuple[Floats, Integers]:
        """Return the failures since the last call until `end`: one row for each trial, ascending, with infinity at its
        end; and the number of the class of each."""
        found = [pool.until(end) for pool in self._pools]
        if not found:
            return np.full((self._trials, 0), np.inf), np.zeros((self._trials, 0), np.int64)
        trial = np.concatenate([each for each, _ in found])
        counts = np.bincount(trial, minlength=self._trials)
        order = np.argsort(trial.astype(np.int16) if self._trials < 2**15 else trial, kind="stable")
        row = trial[order]
        column = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
        every = np.full((self._trials, int(counts.max(initial=0))), np.inf)
        which = np.zeros(every.shape, np.int64)
        every[row, column] = np.concatenate([each for _, each in found])[order]
        which[row, column] = np.repeat(np.arange(len(found)), [len(each) for each, _ in found])[order]
        ascending = np.argsort(every, axis=1)
        return np.take_along_axis(every, ascending, axis=1), np.take_along_axis(which, ascending, axis=1)


class _Pool:
    """The components of one class, in all trials."""

    def __init__(self, one: FailureClass, count: int, trials: int, generator: np.random.Generator) -> None:
        self._scale, self._shape, self._generator = one.scale_hours * HOUR, one.shape, generator
        self._trials = trials
        self._end = 0.0
        self._count = count
        self._unfailed = np.full(trials, count, np.int64)
        self._later: tuple[Integers, Floats] = (np.zeros(0, np.int64), np.zeros(0))

    def until(self, end: float) -> tuple[Integers, Floats]:
        """The trials and the times of the failures since the last call."""
        begin, self._end = self._end, end
        return self._memoryless(begin, end) if self._shape == 1.0 else self._renewals(begin, end)

    def _memoryless(self, begin: float, end: float) -> tuple[Integers, Floats]:
        counts = self._generator.poisson(self._count * (end - begin) / self._scale, self._trials)
        trial = np.repeat(np.arange(self._trials), counts)
        return trial, self._generator.uniform(begin, end, len(trial))

    def _renewals(self, begin: float, end: float) -> tuple[Integers, Floats]:
        before, after = ((t / self._scale) ** self._shape for t in (begin, end))
        chance = -np.expm1(before - after)
        counts = self._generator.binomial(self._unfailed, chance)
        self._unfailed -= counts
        first = np.repeat(np.arange(self._trials), counts)
        hazard = before - np.log1p(-chance * self._generator.random(len(first)))
        trial = np.concatenate([self._later[0], first])
        times = np.concatenate([self._later[1], self._scale * hazard ** (1 / self._shape)])
        failed: list[tuple[Integers, Floats]] = []
        later: list[tuple[Integers, Floats]] = []
        while len(trial):
            now = times <= end
            failed.append((trial[now], times[now]))
            later.append((trial[~now], times[~now]))
            trial = trial[now]
            times = times[now] + self._scale * self._generator.weibull(self._shape, len(trial))
        self._later = _joined(later)
        return _joined(failed)


def _joined(parts: list[tuple[Integers, Floats]]) -> tuple[Integers, Floats]:
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0)
    return np.concatenate([each for each, _ in parts]), np.concatenate([each for _, each in parts])
