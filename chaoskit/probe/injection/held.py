"""What lies between two steps: parameters, what the optimizer and the gradient scaler keep, the learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from chaoskit.fingerprint import is_tensor
from chaoskit.probe.injection.changes import Refused
from chaoskit.probe.injection.strike import Strike
from chaoskit.probe.tensors import named_kept, named_parameters


def strike_held(strike: Strike, optimizers: Sequence[Any], roots: Sequence[Any], scalers: Sequence[Any]) -> None:
    """Make the change that the order asks for, as the update of a step is about to be taken."""
    match strike.into.kind:
        case "parameter":
            _one_of(strike, named_parameters(optimizers, roots))
        case "optimizer":
            kept = named_kept(optimizers, roots)
            if not kept:
                raise Refused("the optimizer keeps no tensor yet: it makes them in its first step")
            _one_of(strike, kept)
        case "scaler":
            _scaler(strike, [each for each in scalers if each.is_enabled()])
        case "lr":
            _learning_rates(strike, optimizers)


def _one_of(strike: Strike, named: dict[str, Any]) -> None:
    chosen = strike.choose(named.items())
    if chosen is not None:
        name, tensor = chosen
        strike.write(tensor, name)


def _scaler(strike: Strike, scalers: Sequence[Any]) -> None:
    if not scalers:
        raise Refused("the job has no gradient scaler in use")
    scale = scalers[0]._scale
    if scale is None:
        raise Refused("the gradient scaler has no scale yet: it makes it in its first step")
    strike.write(scale, "scale")


def _learning_rates(strike: Strike, optimizers: Sequence[Any]) -> None:
    """Of every group, for the update that is about to be taken."""
    groups = [(each, index, group) for each in optimizers for index, group in enumerate(each.param_groups)]
    if not groups:
        raise Refused("no optimizer is known")
    for optimizer, index, group in groups:
        old, name = group["lr"], f"lr of group {index}"
        if is_tensor(old):
            kept = old.detach().clone()
            strike.write(old, name)
            _put_back(strike, optimizer, group, old, kept)
        elif (altered := strike.alter(torch.tensor(float(old), dtype=torch.float64), name)) is not None:
            group["lr"] = float(altered.tensor)
            strike.struck(altered, name)
            _put_back(strike, optimizer, group, group["lr"], old)


def _put_back(strike: Strike, optimizer: Any, group: dict[str, Any], put: Any, old: Any) -> None:
    """As soon as the update has been taken, or left out, if nobody else has set it by then."""
    wrong = put.detach().clone() if is_tensor(put) else put

    def restore(*_: Any) -> None:
        now = group["lr"]
        if is_tensor(now) and is_tensor(wrong):
            if now is put and _same(now, wrong):
                with torch.no_grad():
                    now.copy_(old)
        elif now is put:
            group["lr"] = old

    # A hook must not take itself away while torch goes through all of them.
    strike.on_release(optimizer.register_step_post_hook(restore).remove)
    strike.on_release(restore)


def _same(one: Any, other: Any) -> bool:
    return bool(torch.equal(one.nan_to_num(nan=-1.0), other.nan_to_num(nan=-1.0)))
