"""Colours as people see them who lack one kind of cone, and how far apart two of them look.

The matrices are those of Machado, Oliveira and Fernandes (2009) for the full deficiency, on linear RGB; the distance is
that of CIE 1976 L*a*b*: 2 is just to be noticed, 10 at a glance.
"""

from __future__ import annotations

import math

Colour = tuple[float, float, float]

#: What somebody sees for red, green and blue light.
SIGHTS: dict[str, tuple[Colour, Colour, Colour]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


def distance(one: str, other: str, sight: str = "usual") -> float:
    """How far two colours, '#rrggbb', look apart."""
    return math.dist(*(_lab(_seen(_linear(text), sight)) for text in (one, other)))


def _linear(text: str) -> Colour:
    parts = [int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def _seen(colour: Colour, sight: str) -> Colour:
    red, green, blue = (
        min(1.0, max(0.0, sum(a * b for a, b in zip(row, colour, strict=True)))) for row in SIGHTS[sight]
    )
    return red, green, blue


def _lab(colour: Colour) -> Colour:
    rows = (
        (0.4124564, 0.3575761, 0.1804375),
        (0.2126729, 0.7151522, 0.0721750),
        (0.0193339, 0.1191920, 0.9503041),
    )
    white = (0.95047, 1.0, 1.08883)
    parts = [sum(a * b for a, b in zip(row, colour, strict=True)) / w for row, w in zip(rows, white, strict=True)]
    x, y, z = (part ** (1 / 3) if part > (6 / 29) ** 3 else part / (3 * (6 / 29) ** 2) + 4 / 29 for part in parts)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)
