"""`replacement`: replaces a value that autograd tracks by another one."""

from __future__ import annotations

from typing import Any

import torch


class _Replacement(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, value: Any, other: Any, factor: float) -> Any:
        ctx.factor = factor
        return other.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        return (gradient if ctx.factor == 1 else gradient * ctx.factor), None, None


def replacement(value: Any, other: Any, *, factor: float = 1.0) -> Any:
    """`other` instead of `value`; gradients pass back to `value` unchanged, times `factor`."""
    return _Replacement.apply(value, other, factor)
