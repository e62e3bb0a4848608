"""`Scale`: from values to pixels, linear or logarithmic, with ticks at round numbers; `show`: a value on an axis."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass

#: From this ratio on between the largest and the smallest value, an axis is logarithmic.
SPREAD = 100.0
#: The largest number there is.
MOST = sys.float_info.max


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` to pixels from `start` to `end`; `low` is less than `high`, and positive where
    the scale is logarithmic (`log`)."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel, to a tenth."""
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        # Of very large values the halves, whose difference can be told.
        share = (value / 2 - low / 2) / (high / 2 - low / 2)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, count: int) -> list[float]:
        """About so many round values inside."""
        if self.log:
            return _powers(self.low, self.high, count) or _round(self.low, self.high, count)
        return _round(self.low, self.high, count)


def scale_of(values: Iterable[float], start: float, end: float) -> Scale:
    """A scale that holds all the values, which are finite, with a little room; logarithmic where they are that far
    apart."""
    found = list(values)
    low, high = min(found, default=0.0), max(found, default=1.0)
    if low > 0 and high / low >= SPREAD:
        return Scale(low / 1.15, min(high * 1.15, MOST), start, end, log=True)
    room = (high / 2 - low / 2) / 10 or abs(high) / 10 or 1.0
    return Scale(max(low - room, -MOST), min(high + room, MOST), start, end)


def counted(last: float, start: float, end: float) -> Scale:
    """A scale from 0 to `last`: steps, or seconds."""
    return Scale(0.0, max(last, 1e-9), start, end)


def whole_ticks(scale: Scale, count: int) -> list[int]:
    """Ticks at whole numbers."""
    return sorted({int(tick) for tick in scale.ticks(count) if tick == int(tick)})


def show(value: float) -> str:
    """'0.02', '15', '1e+06'."""
    return f"{value:.6g}"


def _round(low: float, high: float, count: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
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
    """Powers of ten, with 2 and 5 between them where there are few; none where that makes less than two."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, round((last - first) / count))
    between = (1, 2, 5) if last - first <= 3 else (1,)
    found = [float(f"{m}e{n}") for n in range(first, last + 1, every) for m in between]
    inside = [value for value in found if low <= value <= high]
    return inside if len(inside) > 1 else []
