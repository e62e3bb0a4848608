"""Injections into the batch: the arguments of the outermost training forward. The job's own tensors stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.probe.injection.numeric_injection import NumericInjection
from chaoskit.probe.injection.structure import replaced, tensors

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def change(injection: NumericInjection, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments with a changed copy of one tensor; for a bad batch, of all of them."""
    named = [
        (name, tensor)
        for name, tensor in (*tensors(args, "batch"), *tensors(dict(kwargs), "batch"))
        if not tensor.requires_grad and tensor.numel()  # else the model computed it: a loss module's input
    ]
    if not named:
        injection.why = "no training forward of the step was given a tensor of data"
        return args, kwargs
    if injection.how["kind"] not in ("bad", "bitflip", "stuck", "zero", "stale"):
        # Those are no changes of whole numbers.
        named = [each for each in named if each[1].is_floating_point()] or named
    chosen = named if injection.how["kind"] == "bad" else [injection.draw(named)]
    new: dict[int, Any] = {}
    for name, tensor in chosen:
        altered = injection.alter_also(tensor, name) if new else injection.alter(tensor, name)
        if altered is not None:
            new[id(tensor)] = altered.tensor
            injection.record_change(altered, name)

    def swap(_: str, tensor: Any) -> Any:
        return new.get(id(tensor), tensor)

    return replaced(args, swap), replaced(dict(kwargs), swap)
