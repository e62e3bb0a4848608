"""Gaps between losses: counted as numpy would step from one number to the next."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.analysis.stats.ulps import UlpDistance, is_float32

FINITE32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
FINITE64 = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE32, st.integers(0, 50), st.sampled_from([-np.inf, np.inf]))
def test_so_many_steps_of_float32_are_so_many_ulps(value, steps, towards):
    other = np.float32(value)
    with np.errstate(over="ignore"):
        for _ in range(steps):
            other = np.nextafter(other, np.float32(towards))
    gap = UlpDistance(value, float(other))
    if np.isfinite(other):
        assert gap.precision == "float32" and gap.ulps == UlpDistance(float(other), value).ulps == steps


@given(
    FINITE64.filter(lambda value: not is_float32(value)), st.integers(0, 50), st.sampled_from([-np.inf, np.inf])
)
def test_so_many_steps_of_float64_are_so_many_ulps(value, steps, towards):
    other = np.float64(value)
    with np.errstate(over="ignore"):
        for _ in range(steps):
            other = np.nextafter(other, towards)
    if np.isfinite(other):
        gap = UlpDistance(value, float(other))
        assert gap.precision == "float64" and gap.ulps == steps


@given(FINITE32)
def test_the_next_number_is_one_spacing_away(value):
    with np.errstate(over="ignore"):
        further = float(np.float32(value) + np.spacing(np.float32(value)))
    if math.isfinite(further):
        assert UlpDistance(value, further).ulps == 1


@given(FINITE64)
def test_what_float32_has(value):
    with np.errstate(over="ignore"):
        assert is_float32(value) == (float(np.float32(value)) == value)


@given(FINITE32, FINITE32, FINITE32)
def test_ulps_add_up_in_order(a, b, c):
    low, middle, high = sorted((a, b, c))
    assert UlpDistance(low, high).ulps == UlpDistance(low, middle).ulps + UlpDistance(middle, high).ulps


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_of_what_is_no_finite_number_nothing_is_counted(bad):
    assert UlpDistance(bad, 1.0).ulps is UlpDistance(1.0, bad).ulps is None
    assert UlpDistance(1.0, bad).relative == math.inf


def test_two_that_are_not_a_number_are_no_gap():
    assert UlpDistance(math.nan, math.nan).relative == 0.0


def test_both_zeros_are_equal():
    gap = UlpDistance(0.0, -0.0)
    assert gap.ulps == 0 and gap.relative == 0.0 and gap.precision == "float32"


def test_across_zero_the_smallest_numbers_are_two_apart():
    (tiny,) = struct.unpack("<f", struct.pack("<i", 1))
    assert UlpDistance(-tiny, tiny).ulps == 2


def test_bfloat16_is_counted_in_float32():
    # 1.0078125 is the next number of bfloat16 after 1: 65536 numbers of float32 further.
    assert UlpDistance(1.0, 1.0078125).precision == "float32" and UlpDistance(1.0, 1.0078125).ulps == 2**16
