"""What is done to a number: a bit flipped, by what it means, or the value itself made another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Groups of bits, from the most significant to the least.
BITS = ("sign", "exponent high", "exponent low", "mantissa high", "mantissa low")
#: What is done to values, and how.
VALUES: dict[str, Mapping[str, Any]] = {
    "nan": {"kind": "nan"},
    "zero": {"kind": "zero"},
    "scale 100": {"kind": "scale", "factor": 100.0},
}
CHANGES = (*BITS, *VALUES)
#: Bits of the exponent and of the mantissa; beside them there is the sign.
FORMATS = {
    "float64": (11, 52),
    "float32": (8, 23),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3),
    "float8_e5m2": (5, 2),
}
#: Of what the numbers of a training are until one has been seen.
USUAL = "float32"


def bits(group: str, dtype: str) -> range:
    """The bits of that group, 0 being the least significant; none in a type that is not known."""
    if dtype not in FORMATS:
        return range(0)
    exponent, mantissa = FORMATS[dtype]
    low, middle = mantissa // 2, mantissa + exponent // 2
    ends = {
        "mantissa low": (0, low),
        "mantissa high": (low, mantissa),
        "exponent low": (mantissa, middle),
        "exponent high": (middle, mantissa + exponent),
        "sign": (mantissa + exponent, mantissa + exponent + 1),
    }
    return range(*ends[group])


def how(change: str, dtype: str, at: float) -> Mapping[str, Any]:
    """The change, as a rank is ordered to make it; `at` (from 0 to below 1) says which bit of its group."""
    if change in VALUES:
        return VALUES[change]
    group = bits(change, dtype) or range(1)
    return {"kind": "bitflip", "bits": 1, "which": "any", "bit": group[int(at * len(group))]}


def elements(change: str) -> int | str:
    """How much of the tensor is changed: of a wrong scale or a lost message all of it, else one number."""
    return "all" if change in ("zero", "scale 100") else 1
