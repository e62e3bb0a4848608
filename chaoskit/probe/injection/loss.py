"""The loss, and with it every gradient: each is multiplied by what the loss was multiplied by."""

from __future__ import annotations

from typing import Any

import torch

from chaoskit.fingerprint import local_part
from chaoskit.probe.injection.replacement import replacement
from chaoskit.probe.injection.strike import Strike
from chaoskit.probe.injection.structure import replaced, tensors


def in_result(strike: Strike, result: Any) -> Any:
    """What the outermost training forward returns, with another loss, if it holds one: a single number that has a
    gradient."""
    new: dict[int, Any] = {}
    for name, tensor in tensors(result, "loss"):
        if tensor.requires_grad and tensor.numel() == 1 and tensor.is_floating_point() and _plain(tensor):
            altered = strike.alter_also(tensor, name) if new else strike.alter(tensor, name)
            if altered is not None:
                factor = _factor(tensor, altered.tensor)
                new[id(tensor)] = replacement(tensor, altered.tensor, factor=factor)
                strike.struck(altered, name)
    return replaced(result, lambda _, each: new.get(id(each), each)) if new else result


def at_backward(strike: Strike, start: Any, unscaled: Any) -> None:
    """What a backward pass begins from, in place; `unscaled` is the loss that a gradient scaler has made it of."""
    if not (start.is_floating_point() and start.requires_grad):
        strike.why = "the backward pass of the step does not begin from a loss"
        return
    altered = strike.alter(unscaled, "loss")
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
    strike.struck(altered, "loss")


def _factor(before: Any, after: Any) -> Any:
    """What makes `after` of `before`: of a loss of several numbers of each its own."""
    old = local_part(before).detach()
    ratio = after / old
    # Nothing makes another number of zero: there the gradients stay.
    ratio = torch.where((old == 0) & after.isfinite(), torch.ones_like(ratio), ratio)
    return float(ratio) if ratio.numel() == 1 else ratio


def _plain(tensor: Any) -> bool:
    return local_part(tensor) is tensor
