"""The closed forms of the checkpoint interval, against published examples and against the minimum that they promise."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.errors import UsageError
from chaoskit.studies.forecast.intervals import daly, training_share, young

MINUTE, HOUR = 60.0, 3600.0
TIMES = st.floats(1e-3, 1e9)


def test_the_example_of_a_save_of_5_minutes_and_a_failure_every_12_hours():
    assert young(5 * MINUTE, 12 * HOUR) == pytest.approx(math.sqrt(2) * HOUR)
    assert round(young(5 * MINUTE, 12 * HOUR) / HOUR, 2) == 1.41


def test_daly_is_young_less_the_save_where_failures_are_rare():
    assert daly(1.0, 1e9) == pytest.approx(young(1.0, 1e9) - 1 + 1 / 3, rel=1e-6)


def test_daly_is_the_mean_time_between_failures_where_a_save_takes_two_of_them():
    assert daly(200.0, 100.0) == 100.0
    assert daly(199.9, 100.0) == pytest.approx(100, abs=60)


@given(save=st.floats(1, 600), hours=st.floats(1, 1000))
def test_no_interval_beside_dalys_trains_a_larger_share(save: float, hours: float):
    best = daly(save, hours * HOUR)
    here = training_share(best, save, 300, hours * HOUR)
    for factor in (0.5, 0.7, 1.4, 2.0):
        assert training_share(best * factor, save, 300, hours * HOUR) < here


@given(save=TIMES, mtbf=TIMES, factor=st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(save: float, mtbf: float, factor: float):
    for formula in (young, daly):
        assert formula(save * factor, mtbf * factor) == pytest.approx(formula(save, mtbf) * factor, rel=1e-9)


@given(interval=TIMES, save=TIMES, restart=TIMES, mtbf=TIMES)
def test_a_share_is_a_share_and_only_falls_with_the_costs(
    interval: float, save: float, restart: float, mtbf: float
):
    shares = [training_share(interval, save * times, restart * times, mtbf) for times in (0, 1, 2)]
    assert all(0 <= share <= 1 for share in shares)
    assert all(later <= before for before, later in pairwise(shares))


@pytest.mark.parametrize("formula", [young, daly])
@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, "5", None, True])
def test_a_time_that_is_none_is_refused_by_name(formula, wrong):
    with pytest.raises(UsageError, match="save_seconds"):
        formula(wrong, 1.0)
    with pytest.raises(UsageError, match="mtbf_seconds"):
        formula(1.0, wrong)


def test_an_interval_far_beyond_the_failures_trains_nothing():
    assert training_share(1e9, 1.0, 0.0, 1.0) == 0.0
