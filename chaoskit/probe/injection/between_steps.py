"""Injections into state that lives between steps: parameters, optimizer state, gradient scaler, learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from chaoskit.probe.injection.changes import InjectionRefused
from chaoskit.probe.injection.numeric_injection import NumericInjection
from chaoskit.probe.tensors import named_kept, named_parameters
from chaoskit.protocol.fingerprint import is_tensor


def change(
    injection: NumericInjection, optimizers: Sequence[Any], roots: Sequence[Any], scalers: Sequence[Any]
) -> None:
    """Make the change that the order asks for, when the update of a step is about to be taken."""
    match injection.into.kind:
        case "parameter":
            _one_of(injection, named_parameters(optimizers, roots))
        case "optimizer":
            kept = named_kept(optimizers, roots)
            if not kept:
                raise InjectionRefused("the optimizer keeps no tensor yet: it makes them in its first step")
            _one_of(injection, kept)
        case "scaler":
            _scaler(injection, [each for each in scalers if each.is_enabled()])
        case "lr":
            _learning_rates(injection, optimizers)


def _one_of(injection: NumericInjection, named: dict[str, Any]) -> None:
    chosen = injection.choose(named.items())
    if chosen is not None:
        name, tensor = chosen
        injection.write(tensor, name)


def _scaler(injection: NumericInjection, scalers: Sequence[Any]) -> None:
    if not scalers:
        raise InjectionRefused("the job has no gradient scaler in use")
    scale = scalers[0]._scale
    if scale is None:
        raise InjectionRefused("the gradient scaler has no scale yet: it makes it in its first step")
    injection.write(scale, "scale")


def _learning_rates(injection: NumericInjection, optimizers: Sequence[Any]) -> None:
    """Of every group, for the update that is about to be taken."""
    groups = [(each, index, group) for each in optimizers for index, group in enumerate(each.param_groups)]
    if not groups:
        raise InjectionRefused("no optimizer is known")
    for optimizer, index, group in groups:
        old, name = group["lr"], f"lr of group {index}"
        if is_tensor(old):
            kept = old.detach().clone()
            injection.write(old, name)
            _put_back(injection, optimizer, group, old, kept)
            continue
        rate = torch.tensor(float(old), dtype=torch.float64, device="cpu")
        if (altered := injection.alter(rate, name)) is not None:
            group["lr"] = float(altered.tensor)
            injection.record_change(altered, name)
            _put_back(injection, optimizer, group, group["lr"], old)


def _put_back(injection: NumericInjection, optimizer: Any, group: dict[str, Any], put: Any, old: Any) -> None:
    """Restore the learning rate once the update was taken or skipped, unless the job has set it meanwhile."""
    wrong = put.detach().clone() if is_tensor(put) else put

    def restore(*_: Any) -> None:
        now = group["lr"]
        if is_tensor(now) and is_tensor(wrong):
            if now is put and _same(now, wrong):
                with torch.no_grad():
                    now.copy_(old)
        elif now is put:
            group["lr"] = old

    # A hook must not remove itself while torch iterates over all of them.
    injection.on_release(optimizer.register_step_post_hook(restore).remove)
    injection.on_release(restore)


def _same(one: Any, other: Any) -> bool:
    return bool(torch.equal(one.nan_to_num(nan=-1.0), other.nan_to_num(nan=-1.0)))
