"""Finds NaN and infinity in tensors."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chaoskit.protocol.fingerprint import is_tensor, local_part


def is_finite(value: Any) -> bool:
    """Whether a number, or every element of a tensor, is finite; True for anything else. Waits for a device."""
    if isinstance(value, float):
        return math.isfinite(value)
    if not is_tensor(value):
        return True
    tensor = local_part(value).detach()
    if not _may_be_infinite(tensor):
        return True
    # A sum is one pass without extra memory. Large numbers may overflow it: then look at each element.
    total = tensor.sum() if tensor.is_complex() else tensor.sum(dtype=_wide(tensor))
    return bool(_all_finite(total)) or bool(_all_finite(tensor))


class Nonfinite:
    """The names of the components that hold a number that is not finite; a `DeferredPart` of the record."""

    def __init__(self, components: Mapping[str, Iterable[Any]]) -> None:
        torch = sys.modules["torch"]
        self.reductions: list[Any] = []
        self._found: dict[str, bool] = {}
        self._waiting: list[str] = []
        for name, tensors in components.items():
            parts = [part for each in tensors if _may_be_infinite(part := local_part(each).detach())]
            self._found[name] = not all(is_finite(part) for part in parts if part.is_cpu)
            elsewhere = [_all_finite(part) for part in parts if not part.is_cpu]
            if elsewhere:
                self._waiting.append(name)
                device = elsewhere[0].device
                whole = torch.stack([each.to(device) for each in elsewhere]).all()
                self.reductions.append(whole.to(torch.int64).reshape(1))

    def settled(self, numbers: Sequence[int]) -> list[str]:
        """The names, in the order given."""
        later = {name for name, finite in zip(self._waiting, numbers, strict=True) if not finite}
        return [name for name, found in self._found.items() if found or name in later]


def _may_be_infinite(tensor: Any) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta:
        return False
    # Storage that was freed, as sharding does, must not be read; a tensor without an address is empty.
    return tensor.is_sparse or bool(tensor.data_ptr())


def _wide(tensor: Any) -> Any:
    """The type to sum in: half precision would overflow in a sum of finite numbers."""
    return None if tensor.element_size() > 2 else sys.modules["torch"].float32


def _all_finite(tensor: Any) -> Any:
    return tensor.isfinite().all()
