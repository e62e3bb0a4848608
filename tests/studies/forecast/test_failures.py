"""The pools of components, against what renewal theory says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chaoskit.studies.forecast.failures import FailureStream
from chaoskit.studies.forecast.presets import FailureClass

HOUR = 3600.0


def counts(one: FailureClass, units: int, hours: float, *, trials: int = 4000, windows: int = 1) -> np.ndarray:
    """How many of these components fail within so many hours, by trial."""
    stream = FailureStream([one], [units], trials=trials, generator=np.random.default_rng(3))
    ends = [hours * HOUR * (at + 1) / windows for at in range(windows)]
    return sum(np.isfinite(stream.until(end)[0]).sum(axis=1) for end in ends)


def near(found: np.ndarray, expected: float) -> bool:
    """Whether the mean is the expected one, within four of its standard errors."""
    return abs(found.mean() - expected) < 4 * found.std() / math.sqrt(len(found))


def test_memoryless_components_fail_as_a_poisson_process():
    found = counts(FailureClass("gpu", "gpu", 1000.0), 500, 24.0)
    assert near(found, 500 * 24 / 1000)
    assert found.var() == pytest.approx(12.0, rel=0.15)


def test_a_shape_of_nearly_one_is_drawn_by_the_other_way_and_is_the_same():
    found = counts(FailureClass("gpu", "gpu", 100.0, shape=1 + 1e-9), 50, 300.0)
    assert near(found, 150) and found.var() == pytest.approx(150, rel=0.15)


@pytest.mark.parametrize("shape", [0.7, 2.0])
def test_few_failures_follow_the_distribution_of_lifetimes(shape: float):
    one = FailureClass("gpu", "gpu", 50_000.0, shape=shape)
    chance = -math.expm1(-((720 / one.scale_hours) ** shape))
    assert near(counts(one, 20_000, 720.0, trials=500), 20_000 * chance) or shape < 1
    if shape < 1:  # some of the new ones fail early too
        assert counts(one, 20_000, 720.0, trials=500).mean() == pytest.approx(20_000 * chance, rel=0.05)


@pytest.mark.parametrize(("shape", "early"), [(0.5, 0.5**0.5), (1.0, 0.5), (2.0, 0.5**2)])
def test_another_shape_moves_the_failures_and_keeps_their_number(shape: float, early: float):
    one = FailureClass("gpu", "gpu", 50_000.0).shaped(shape, hours=240.0)
    half, whole = (counts(one, 5000, hours, trials=1000).mean() for hours in (120.0, 240.0))
    assert whole == pytest.approx(5000 * 240 / 50_000, rel=0.05)
    assert half / whole == pytest.approx(early, rel=0.06)


@pytest.mark.parametrize("windows", [1, 7])
def test_after_many_renewals_the_count_is_that_of_the_renewal_theorem(windows: int):
    # The expected number is t/mean + (variance/mean² - 1)/2 after a long time.
    one = FailureClass("gpu", "gpu", 10.0, shape=2.0)
    squared = math.gamma(2) / math.gamma(1.5) ** 2 - 1
    assert near(counts(one, 40, 100.0, windows=windows), 40 * (10 + (squared - 1) / 2))


def test_the_failures_of_a_trial_are_ascending_and_keep_their_class():
    classes = [FailureClass("gpu", "gpu", 100.0), FailureClass("host", "node", 300.0, shape=1.5)]
    stream = FailureStream(classes, [100, 100], trials=300, generator=np.random.default_rng(0))
    for end in (10 * HOUR, 30 * HOUR):
        times, kinds = stream.until(end)
        assert times.shape == kinds.shape
        known = np.isfinite(times)
        assert (np.diff(np.where(known, times, end * 2), axis=1) >= 0).all()
        assert (times[known] <= end).all() and (times[known] > end - 20 * HOUR).all()
        both = np.bincount(kinds[known], minlength=2)
        assert both[0] > both[1] > 0


def test_no_class_is_no_failure():
    times, kinds = FailureStream([], [], trials=3, generator=np.random.default_rng(0)).until(HOUR)
    assert times.shape == kinds.shape == (3, 0)
