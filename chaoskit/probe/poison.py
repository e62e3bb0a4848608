"""Not-a-number in what a forward pass returns: the tensors of any structure, through autograd, nothing in place."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from chaoskit.fingerprint import is_tensor

_NAN = float("nan")


def poison(value: Any) -> tuple[Any, int]:
    """The same structure with every floating-point tensor in it times NaN, and how many these were."""
    if is_tensor(value):
        if value.is_floating_point() or value.is_complex():
            return value * _NAN, 1
        return value, 0
    if isinstance(value, (Mapping, list)):
        pairs = list(value.items() if isinstance(value, Mapping) else enumerate(value))
        return _replaced(value, pairs, lambda made, key, item: made.__setitem__(key, item))
    if isinstance(value, tuple):
        items = [poison(item) for item in value]
        if not (count := sum(found for _, found in items)):
            return value, 0
        made = [item for item, _ in items]
        return (type(value)(*made) if hasattr(value, "_fields") else type(value)(made)), count
    if is_dataclass(value) and not isinstance(value, type):
        pairs = [(field.name, getattr(value, field.name)) for field in fields(value)]
        return _replaced(value, pairs, object.__setattr__)  # a frozen one, too
    return value, 0


def _replaced(value: Any, pairs: list[tuple[Any, Any]], put: Any) -> tuple[Any, int]:
    """A copy of a container, with what is poisoned in place of what was."""
    made, count = value, 0
    for key, item in pairs:
        poisoned, found = poison(item)
        if found:
            made = copy.copy(value) if made is value else made
            put(made, key, poisoned)
            count += found
    return made, count
