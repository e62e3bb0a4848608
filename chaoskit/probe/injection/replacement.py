"""Another value in the place of one that autograd knows."""

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
    """`other` in the place of `value`, through which gradients go back as they come, times `factor`."""
    return _Replacement.apply(value, other, factor)
