"""The batch: what the outermost training forward is given. The job's own tensors stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.probe.injection.strike import Strike
from chaoskit.probe.injection.structure import replaced, tensors

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def change(strike: Strike, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments, with a copy of one tensor in place of it; a bad batch is bad in all of them."""
    named = [
        (name, tensor)
        for name, tensor in (*tensors(args, "batch"), *tensors(dict(kwargs), "batch"))
        if not tensor.requires_grad and tensor.numel()  # else the model computed it: a loss module's input
    ]
    if not named:
        strike.why = "no training forward of the step was given a tensor of data"
        return args, kwargs
    if strike.how["kind"] not in ("bad", "bitflip", "stuck", "zero", "stale"):
        # Those are no changes of whole numbers.
        named = [each for each in named if each[1].is_floating_point()] or named
    chosen = named if strike.how["kind"] == "bad" else [strike.draw(named)]
    new: dict[int, Any] = {}
    for name, tensor in chosen:
        altered = strike.alter_also(tensor, name) if new else strike.alter(tensor, name)
        if altered is not None:
            new[id(tensor)] = altered.tensor
            strike.struck(altered, name)

    def swap(_: str, tensor: Any) -> Any:
        return new.get(id(tensor), tensor)

    return replaced(args, swap), replaced(dict(kwargs), swap)
