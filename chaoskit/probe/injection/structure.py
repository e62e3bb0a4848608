"""Finds and replaces the tensors in nested arguments and results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from chaoskit.protocol.fingerprint import is_tensor

#: Called with the path of a tensor and the tensor; returns its replacement, or the tensor itself to keep it.
Swap = Callable[[str, Any], Any]


def tensors(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The tensors by dotted path, in their order."""
    found: list[tuple[str, Any]] = []

    def note(where: str, tensor: Any) -> Any:
        found.append((where, tensor))
        return tensor

    replaced(value, note, path)
    return found


def replaced(value: Any, swap: Swap, path: str = "") -> Any:
    """`value` with its tensors replaced by `swap`. Only containers of replaced tensors are copied; nothing is changed
    in place."""
    if is_tensor(value):
        return swap(path, value)
    parts = list(_parts(value))
    new = [(key, replaced(item, swap, f"{path}.{key}" if path else str(key))) for key, item in parts]
    other = [(key, made) for (key, item), (_, made) in zip(parts, new, strict=True) if made is not item]
    if not other:
        return value
    if isinstance(value, tuple):
        items = [made for _, made in new]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    made = copy.copy(value)
    for key, item in other:
        if isinstance(value, (Mapping, list)):
            made[key] = item
        else:
            object.__setattr__(made, key, item)  # a frozen one, too
    return made


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
