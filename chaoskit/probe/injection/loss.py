"""Injections into the loss. Every gradient is multiplied by the same factor as the loss."""

from __future__ import annotations

from typing import Any

import torch

from chaoskit.probe.injection.numeric_injection import NumericInjection
from chaoskit.probe.injection.replacement import replacement
from chaoskit.probe.injection.structure import replaced, tensors
from chaoskit.protocol.fingerprint import local_part


def in_result(injection: NumericInjection, result: Any) -> Any:
    """The result of the outermost training forward with a changed loss, if it holds one: a single number with a
    gradient."""
    new: dict[int, Any] = {}
    for name, tensor in tensors(result, "loss"):
        if tensor.requires_grad and tensor.numel() == 1 and tensor.is_floating_point() and _plain(tensor):
            altered = injection.alter_also(tensor, name) if new else injection.alter(tensor, name)
            if altered is not None:
                factor = _factor(tensor, altered.tensor)
                new[id(tensor)] = replacement(tensor, altered.tensor, factor=factor)
                injection.record_change(altered, name)
    return replaced(result, lambda _, each: new.get(id(each), each)) if new else result


def at_backward(injection: NumericInjection, start: Any, unscaled: Any) -> None:
    """Change in place the loss that a backward pass begins from; `unscaled` is the loss before a gradient scaler."""
    if not (start.is_floating_point() and start.requires_grad):
        injection.why = "the backward pass of the step does not begin from a loss"
        return
    altered = injection.alter(unscaled, "loss")
    if altered is None:
        return
    with torch.no_grad():
        factor = _factor(unscaled, altered.tensor)
        start.register_hook(lambda gradient: gradient * factor)
        # By `data`, for autograd may check that nobody has written there.
        begun, told = local_part(start).data, local_part(unscaled).data
        if begun.data_ptr() != told.data_ptr():
            begun.mul_(factor)
        told.copy_(altered.tensor)
    injection.record_change(altered, "loss")


def _factor(before: Any, after: Any) -> Any:
    """The factor from `before` to `after`, for each number of the loss."""
    old = local_part(before).detach()
    ratio = after / old
    # Nothing makes another number of zero: there the gradients stay.
    ratio = torch.where((old == 0) & after.isfinite(), torch.ones_like(ratio), ratio)
    return float(ratio) if ratio.numel() == 1 else ratio


def _plain(tensor: Any) -> bool:
    return local_part(tensor) is tensor
