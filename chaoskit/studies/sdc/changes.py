"""The changes of a number: a flipped bit, grouped by the meaning of the bit, or a replaced value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Groups of bits, from the most significant to the least.
BITS = ("sign", "exponent high", "exponent low", "mantissa high", "mantissa low")
#: Replaced values, and the order to make them.
VALUES: dict[str, Mapping[str, Any]] = {
    "nan": {"kind": "nan"},
    "zero": {"kind": "zero"},
    "scale 100": {"kind": "scale", "factor": 100.0},
}
CHANGES = (*BITS, *VALUES)
#: Number of exponent bits and mantissa bits; the sign has one bit.
FORMATS = {
    "float64": (11, 52),
    "float32": (8, 23),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3),
    "float8_e5m2": (5, 2),
}
#: The assumed type of numbers until the first one is observed.
USUAL = "float32"


def bits(group: str, dtype: str) -> range:
    """Return the bits of a group, 0 is the least significant one; empty for an unknown type."""
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
    """Return the order for a rank to make the change; `at` (0 to below 1) selects the bit of the group."""
    if change in VALUES:
        return VALUES[change]
    group = bits(change, dtype) or range(1)
    return {"kind": "bitflip", "bits": 1, "which": "any", "bit": group[int(at * len(group))]}


def elements(change: str) -> int | str:
    """Return how many numbers change: all of the tensor for a wrong scale or zeros, else one."""
    return "all" if change in ("zero", "scale 100") else 1
