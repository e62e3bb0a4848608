"""`Scale`: maps values to pixels, linearly or logarithmically, with ticks at round numbers; `show` formats a tick."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass

#: An axis is logarithmic if the ratio of the largest to the smallest value reaches this.
SPREAD = 100.0
#: The largest finite float.
MOST = sys.float_info.max


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` to pixels from `start` to `end`. `low` is less than `high`, and positive on a
    logarithmic scale (`log`)."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value, rounded to a tenth."""
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        # Halved, because the difference of very large values would overflow.
        share = (value / 2 - low / 2) / (high / 2 - low / 2)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, count: int) -> list[float]:
        """Return about `count` round values within the scale."""
        if self.log:
            return _powers(self.low, self.high, count) or _round(self.low, self.high, count)
        return _round(self.low, self.high, count)


def scale_of(values: Iterable[float], start: float, end: float) -> Scale:
    """Make a scale for all values, which must be finite, with a margin; logarithmic if their ratio reaches `SPREAD`."""
    found = list(values)
    low, high = min(found, default=0.0), max(found, default=1.0)
    if low > 0 and high / low >= SPREAD:
        return Scale(low / 1.15, min(high * 1.15, MOST), start, end, log=True)
    room = (high / 2 - low / 2) / 10 or abs(high) / 10 or 1.0
    return Scale(max(low - room, -MOST), min(high + room, MOST), start, end)


def counted(last: float, start: float, end: float) -> Scale:
    """Make a scale from 0 to `last`, for steps or seconds."""
    return Scale(0.0, max(last, 1e-9), start, end)


def whole_ticks(scale: Scale, count: int) -> list[int]:
    """Return ticks at integers."""
    return sorted({int(tick) for tick in scale.ticks(count) if tick == int(tick)})


def show(value: float) -> str:
    """'0.02', '15', '1e+06'."""
    return f"{value:.6g}"


def _round(low: float, high: float, count: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten."""
    rough = (high / 2 - low / 2) / count * 2
    if not 0 < rough < math.inf:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((m * power for m in (1, 2, 5, 10) if m * power >= rough), rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [
        round(n * step, 12) if abs(n * step) < 1e12 else n * step for n in range(first, min(last, first + 50) + 1)
    ]


def _powers(low: float, high: float, count: int) -> list[float]:
    """Return powers of ten, with 2 and 5 between them if there are few; nothing if that gives fewer than two ticks."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, round((last - first) / count))
    between = (1, 2, 5) if last - first <= 3 else (1,)
    found = [float(f"{m}e{n}") for n in range(first, last + 1, every) for m in between]
    inside = [value for value in found if low <= value <= high]
    return inside if len(inside) > 1 else []
