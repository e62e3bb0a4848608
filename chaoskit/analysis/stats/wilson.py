"""The interval in which a share lies, seen in a few of many."""

from __future__ import annotations

from math import sqrt

#: Of a normal distribution 95 % lie within so many standard deviations.
_Z = 1.959963984540054


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share of which `hits` were seen in `of`; everything where nothing was seen."""
    if not of:
        return 0.0, 1.0
    share, z2 = hits / of, _Z * _Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z * sqrt(share * (1 - share) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return max(0.0, middle - half) if hits else 0.0, min(1.0, middle + half) if hits < of else 1.0
