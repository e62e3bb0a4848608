"""The contents of a checkpoint, key by key: a digest of each tensor, and each number as it is.

They depend on the values alone: a file that was loaded faithfully has the contents that were saved, on any device.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from chaoskit.probe.nonfinite import is_finite
from chaoskit.protocol.fingerprint import Fingerprint, is_tensor, local_part, of_bytes

#: The maximum number of keys, and of keys with numbers that are not finite; longer texts are cut at this length.
MOST, MOST_NONFINITE, LONGEST = 20_000, 20, 60

#: Longer sequences of numbers (a generator's state, an order of samples) are one entry.
_FEW = 64


def contents(value: Any) -> dict[str, str]:
    """The contents of `value` by key path: 32 digits for each tensor, `=` and the value for a plain value."""
    return {key: _text(leaf) for key, leaf in islice(leaves(value), MOST)}


def nonfinite(value: Any) -> list[str]:
    """The key paths of numbers and tensors in `value` that hold not-a-number or infinity."""
    found = (key for key, leaf in islice(leaves(value), MOST) if not _is_finite(leaf))
    return list(islice(found, MOST_NONFINITE))


def leaves(value: Any, key: str = "", above: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The leaves of nested containers, by dotted path. An unknown container, or one that contains itself, is a leaf."""
    inside = _inside(value) if id(value) not in above else None
    if inside is None:
        yield key, value
        return
    for name, item in inside:
        yield from leaves(item, f"{key}.{name}" if key else str(name), (*above, id(value)))


def _inside(value: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a container and their names; None for a leaf."""
    torch = sys.modules["torch"]
    try:
        if is_tensor(value) or isinstance(value, (str, bytes, bytearray)):
            return None
        if isinstance(value, Mapping):
            return list(value.items())
        if isinstance(value, Sequence):
            return None if _are_many_numbers(value) else list(enumerate(value))
        if isinstance(value, torch.nn.Module):
            # Not by `state_dict`, whose hooks may be collective.
            return [*value.named_parameters(), *value.named_buffers()]
        if isinstance(value, (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)):
            return list(value.state_dict().items())
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    except Exception:
        pass  # a container of its own kind: a leaf
    return None


def _are_many_numbers(value: Sequence[Any]) -> bool:
    return len(value) > _FEW and set(map(type, value)) <= {int, float}


def _text(leaf: Any) -> str:
    if leaf is None or isinstance(leaf, (bool, str, int)):
        return f"={leaf}"[:LONGEST]
    if isinstance(leaf, float):
        return f"={leaf.hex()}"
    if isinstance(leaf, complex):
        return f"={leaf}"
    try:
        if is_tensor(leaf):
            return _digest(_in_memory(leaf))
        if isinstance(leaf, (bytes, bytearray)):
            return _digest(leaf)
        if hasattr(leaf, "__array_interface__") and not leaf.dtype.hasobject:
            return _digest(leaf)
        if _are_many_numbers(leaf):
            return of_bytes(repr(list(leaf)).encode())
    except Exception:
        pass  # it holds nothing that can be read
    return f"=<{type(leaf).__name__}>"


def _in_memory(tensor: Any) -> Any:
    """The tensor on the CPU. A checkpoint is often loaded to there, and the save copies it there anyway."""
    local = local_part(tensor).detach()
    return local if local.is_cpu or local.is_meta else local.cpu()


def _digest(value: Any) -> str:
    fingerprint = Fingerprint()
    fingerprint.value(value)
    return fingerprint.hexdigest()


def _is_finite(leaf: Any) -> bool:
    try:
        if isinstance(leaf, Sequence) and not isinstance(leaf, (str, bytes, bytearray)):
            return all(map(math.isfinite, leaf))
        return is_finite(leaf)
    except Exception:
        return True  # nothing that could be looked at
