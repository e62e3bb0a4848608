"""Student's t distribution, from the standard library alone: its distribution function and its quantiles.

The tail is half a regularized incomplete beta function, I_x(df/2, 1/2) with x = df / (df + t^2), which is computed by
its continued fraction: Press et al., Numerical Recipes, 6.4 (the modified method of Lentz); Majumder and
Bhattacharjee, Algorithm AS 63, Applied Statistics 22 (1973).
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_EPSILON = 1e-16
#: It takes some sqrt(df) terms.
_TERMS = 100_000


def cdf(t: float, df: float) -> float:
    """The probability that a variable of `df` degrees of freedom is at most `t`; raises ValueError for df <= 0."""
    _require_df(df)
    tail = _tail(abs(t), df)
    return tail if t < 0 else 1.0 - tail


@lru_cache(maxsize=1024)
def quantile(p: float, df: float) -> float:
    """The t below which the variable lies with probability `p`; the inverse of `cdf`.

    Raises ValueError for a p that is not between 0 and 1, and for df <= 0.
    """
    _require_df(df)
    if not 0.0 < p < 1.0:
        raise ValueError(f"quantile: p must lie between 0 and 1, not {p!r}")
    if p == 0.5:
        return 0.0
    sign, outside = (-1.0, p) if p < 0.5 else (1.0, 1.0 - p)
    low, high = 0.0, 1.0
    while _tail(high, df) > outside:
        low, high = high, 2.0 * high
    # Halving is slow and never wrong; every quantile is computed once.
    while (middle := 0.5 * (low + high)) not in (low, high):
        if _tail(middle, df) > outside:
            low = middle
        else:
            high = middle
    return sign * middle


def _require_df(df: float) -> None:
    if not 0.0 < df < math.inf:
        raise ValueError(f"df must be a positive number, not {df!r}")


def _tail(t: float, df: float) -> float:
    """The probability of more than `t`, which is not negative."""
    if math.isinf(t):
        return 0.0
    square = t * t
    # Both halves of 1 are given, so that neither loses digits by subtraction.
    return 0.5 * _beta(df / 2.0, 0.5, df / (df + square), square / (df + square))


def _beta(a: float, b: float, x: float, y: float) -> float:
    """The regularized incomplete beta function I_x(a, b), where y is 1 - x."""
    if x <= 0.0 or y <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y))
    # The fraction converges quickly on this side of the mean only; the other side is its mirror image.
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, y) / b


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 / _kept(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / _kept(1.0 + term * d)
            c = _kept(1.0 + term / c)
            value *= d * c
        if abs(d * c - 1.0) <= _EPSILON:
            break
    return value


def _kept(value: float) -> float:
    """Away from zero, since it is divided by."""
    return value if abs(value) > _TINY else _TINY
