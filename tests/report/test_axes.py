"""Axes hold every value, at round numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.report.svg.axes import Scale, counted, scale_of, show, whole_ticks

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, max_size=20))
def test_every_value_is_inside_and_in_order(values):
    scale = scale_of(values, 300.0, 10.0)
    pixels = [scale(value) for value in sorted(values)]
    assert all(10.0 <= pixel <= 300.0 for pixel in pixels)
    assert pixels == sorted(pixels, reverse=True)


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_ticks_are_few_and_inside(values):
    scale = scale_of(values, 300.0, 10.0)
    ticks = scale.ticks(6)
    assert len(ticks) <= 60
    slack = 1e-6 * max(abs(scale.low), abs(scale.high), 1e-6)
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in ticks)


@pytest.mark.parametrize(
    ("values", "log"), [([1.0, 99.0], False), ([1.0, 100.0], True), ([0.0, 1e9], False), ([2.0, 2.0], False)]
)
def test_an_axis_is_logarithmic_where_the_spread_asks_for_it(values, log):
    assert scale_of(values, 0.0, 1.0).log is log


def test_ticks_are_round():
    assert Scale(0.0, 60.0, 0, 600).ticks(10) == [0, 10, 20, 30, 40, 50, 60]
    assert Scale(2.46, 3.7, 0, 600).ticks(6) == [2.5, 3.0, 3.5]
    assert Scale(0.01, 2000.0, 0, 600, log=True).ticks(6) == pytest.approx([0.01, 0.1, 1, 10, 100, 1000])
    assert list(Scale(2.0, 300.0, 0, 600, log=True).ticks(6)) == [2, 5, 10, 20, 50, 100, 200]


def test_steps_stand_at_whole_numbers():
    assert whole_ticks(counted(2, 0, 100), 10) == [0, 1, 2]
    assert whole_ticks(counted(5000, 0, 100), 10) == list(range(0, 5001, 500))


def test_a_run_of_no_seconds_has_an_axis():
    assert math.isfinite(counted(0.0, 0, 100)(0.0))


def test_values_are_short():
    assert [show(v) for v in (0.02, 15.0, 1e6, 2.5)] == ["0.02", "15", "1e+06", "2.5"]
