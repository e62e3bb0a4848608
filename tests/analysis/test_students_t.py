"""Student's t against tables, closed forms and an integral of its density."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.analysis.stats.students_t import cdf, quantile

#: Two-sided critical values as every textbook prints them: df, then p = 0.95, 0.975, 0.99, 0.995, 0.9995.
TABLE = """
1    6.314  12.706  31.821  63.657  636.619
2    2.920   4.303   6.965   9.925   31.599
3    2.353   3.182   4.541   5.841   12.924
4    2.132   2.776   3.747   4.604    8.610
5    2.015   2.571   3.365   4.032    6.869
7    1.895   2.365   2.998   3.499    5.408
10   1.812   2.228   2.764   3.169    4.587
30   1.697   2.042   2.457   2.750    3.646
120  1.658   1.980   2.358   2.617    3.373
"""
ROWS = [(float(df), [float(t) for t in row]) for df, *row in map(str.split, TABLE.strip().splitlines())]


@pytest.mark.parametrize(("df", "row"), ROWS)
def test_the_tables(df, row):
    for p, t in zip((0.95, 0.975, 0.99, 0.995, 0.9995), row, strict=True):
        assert quantile(p, df) == pytest.approx(t, abs=0.00051)
        assert quantile(1 - p, df) == pytest.approx(-t, abs=0.00051)


@pytest.mark.parametrize("t", [-300.0, -4.0, -1.0, -1e-6, 0.0, 0.3, 1.0, 2.5, 40.0])
def test_closed_forms(t):
    assert cdf(t, 1) == pytest.approx(0.5 + math.atan(t) / math.pi, abs=1e-14)
    assert cdf(t, 2) == pytest.approx(0.5 + t / (2 * math.sqrt(2 + t * t)), abs=1e-14)
    x = t / math.sqrt(3)
    assert cdf(t, 3) == pytest.approx(0.5 + (x / (1 + x * x) + math.atan(x)) / math.pi, abs=1e-14)


def integral(t, df):
    """The distribution function by Simpson's rule; with t = sqrt(df) tan(u) the density is a power of cos(u)."""
    panels, end = 2000, math.atan(t / math.sqrt(df))
    width = end / panels
    values = [math.cos(i * width) ** (df - 1) for i in range(panels + 1)]
    area = width / 3 * (values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2]))
    return 0.5 + area * math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 9, 19, 63, 200])
@pytest.mark.parametrize("t", [-9.0, -2.0, -0.01, 0.7, 1.96, 5.0, 30.0])
def test_the_integral_of_the_density(t, df):
    assert cdf(t, df) == pytest.approx(integral(t, df), abs=1e-11)


def test_known_quantiles_to_nine_digits():
    assert quantile(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-12)
    for p in (0.6, 0.9, 0.999, 1 - 1e-9):
        assert quantile(p, 2) == pytest.approx((2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p))), rel=1e-12)
    # With many degrees of freedom it is the normal distribution.
    assert quantile(0.975, 1e6) == pytest.approx(1.9599639845400545, abs=1e-5)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.5, 500))
def test_quantile_inverts_cdf(p, df):
    assert cdf(quantile(p, df), df) == pytest.approx(p, abs=1e-9)


@given(st.floats(allow_nan=False), st.floats(0.5, 500))
def test_it_is_symmetric_and_a_probability(t, df):
    assert 0 <= cdf(t, df) <= 1
    assert cdf(t, df) + cdf(-t, df) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("p", "df"), [(0.0, 2), (1.0, 2), (math.nan, 2), (0.5, 0), (0.5, -1), (0.5, math.inf)])
def test_what_has_no_quantile(p, df):
    with pytest.raises(ValueError):
        quantile(p, df)


def test_what_has_no_distribution():
    with pytest.raises(ValueError, match="df"):
        cdf(1.0, 0)
