"""`UlpDistance`: how far two losses are apart: relatively, and in units in the last place (ulps)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Literal

from chaoskit.analysis.record.steps import apart

Precision = Literal["float32", "float64"]


@dataclass(frozen=True)
class UlpDistance:
    """Two losses. `relative` is their distance by the larger of the two, infinity where one of them is no number;
    `ulps` how many numbers of `precision` one must go from one to the other (adjacent ones: 1), None where one is
    not finite."""

    old: float
    new: float

    @property
    def relative(self) -> float:
        """0 for equal ones, and for two that are both not a number."""
        return 0.0 if math.isnan(self.old) and math.isnan(self.new) else apart(self.old, self.new)

    @property
    def precision(self) -> Precision:
        """float32 where both are exactly numbers of that: then they have most likely come from such a tensor."""
        return "float32" if is_float32(self.old) and is_float32(self.new) else "float64"

    @property
    def ulps(self) -> int | None:
        """Counted in `precision`."""
        if not (math.isfinite(self.old) and math.isfinite(self.new)):
            return None
        return abs(_place(self.old, self.precision) - _place(self.new, self.precision))


def is_float32(value: float) -> bool:
    """Whether float32 has exactly this number."""
    try:
        (back,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return False
    return bool(back == value or math.isnan(value))


def _place(value: float, precision: Precision) -> int:
    """Which number it is, counted from zero: IEEE 754 orders the bits of positive numbers as the numbers
    themselves."""
    real, whole, bits = ("<f", "<i", 31) if precision == "float32" else ("<d", "<q", 63)
    (place,) = struct.unpack(whole, struct.pack(real, value))
    return int(place if place >= 0 else -(place + 2**bits))  # the sign is the first bit; both zeros are 0
