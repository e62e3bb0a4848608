"""Finds NaN and infinity in tensors."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """The names of the components that hold a number that is not finite; a `DeferredPart` of the record.

    Each component is given as flags, one a tensor, that say whether it holds such a number.
    """

    def __init__(self, components: Mapping[str, Iterable[Any]]) -> None:
        torch = sys.modules["torch"]
        self.reductions: list[Any] = []
        self._found: dict[str, bool] = {}
        self._waiting: list[str] = []
        for name, flags in components.items():
            every = list(flags)
            self._found[name] = any(bool(each) for each in every if each.is_cpu)
            elsewhere = [each for each in every if not each.is_cpu]
            if elsewhere:
                self._waiting.append(name)
                device = elsewhere[0].device
                whole = torch.stack([each.to(device) for each in elsewhere]).any()
                self.reductions.append(whole.to(torch.int64).reshape(1))

    def settled(self, numbers: Sequence[int]) -> list[str]:
        """The names, in the order given."""
        later = {name for name, found in zip(self._waiting, numbers, strict=True) if found}
        return [name for name, found in self._found.items() if found or name in later]


class Masks:
    """Knows the parameters that were not finite before the first step, and that training did not make so.

    A mask holds infinity and no NaN, or it is frozen. Everything stays on its device.
    """

    def __init__(self) -> None:
        self._begun: dict[int, tuple[Any, Any]] = {}

    def learn(self, parameters: Iterable[Any]) -> None:
        """Look at the parameters as they are before the first step."""
        for each in parameters:
            nan, infinite = _kinds(each)
            self._begun[id(each)] = (nan & False, infinite & ~nan) if each.requires_grad else (nan, infinite)

    def look(self, parameters: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """For each parameter two flags: whether it holds what no mask held, and whether it is a mask."""
        for each in parameters:
            nan, infinite = _kinds(each)
            known = self._begun.get(id(each))
            bad = nan | infinite if known is None else nan & ~known[0] | infinite & ~known[1]
            yield bad, (nan | infinite) & ~bad


def flags(tensors: Iterable[Any]) -> Iterator[Any]:
    """For each tensor whether it holds a number that is not finite, as a flag on its device."""
    for each in tensors:
        nan, infinite = _kinds(each)
        yield nan | infinite


def _kinds(value: Any) -> tuple[Any, Any]:
    """Whether a tensor holds NaN, and whether infinity, as flags on its device."""
    torch = sys.modules["torch"]
    tensor = local_part(value).detach()
    if not _may_be_infinite(tensor) or (tensor.is_cpu and is_finite(tensor)):
        never = torch.zeros((), dtype=torch.bool, device="cpu")
        return never, never
    if tensor.is_sparse:
        tensor = tensor.coalesce().values()
    return tensor.isnan().any(), tensor.isinf().any()


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
