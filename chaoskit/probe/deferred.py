"""`DeferredEvent`: an event of which some values are still being computed on a device, and are read without a stall."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from chaoskit.protocol.fingerprint import Fingerprint, is_tensor


class DeferredPart(Protocol):
    """A value that is complete once the numbers in its `reductions`, int64 vectors on a device, have been read."""

    reductions: list[Any]

    def settled(self, numbers: Sequence[int]) -> Any:
        """The value, as it goes into the record."""


class DeferredEvent:
    """Starts one copy of all pending values at once. The fields hold text, floats and `DeferredPart`s, also nested."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        vectors = [vector for part in _parts(fields) for vector in part.reductions]
        self.waiting = bool(vectors)
        self._ready: Any = None
        self._numbers: Any = None
        if vectors:
            self._fetch(vectors)

    def _fetch(self, vectors: list[Any]) -> None:
        """Start one copy of everything to page-locked memory, behind the work that is already queued."""
        torch = sys.modules["torch"]
        device = vectors[0].device
        whole = torch.cat([vector.to(device) for vector in vectors])
        if device.type == "cuda":
            self._numbers = torch.empty(len(whole), dtype=torch.int64, device="cpu", pin_memory=True)
            self._numbers.copy_(whole, non_blocking=True)
            with torch.cuda.device(device):  # that of the thread may be another one
                self._ready = torch.cuda.Event()
                self._ready.record()
        else:
            self._numbers = whole.cpu()

    @property
    def early(self) -> dict[str, Any]:
        """The fields that are complete already; of nested ones, such as `state`, the complete components."""
        found: dict[str, Any] = {}
        for name, value in self._fields.items():
            if isinstance(value, dict):
                found[name] = {key: _settled(each, iter(())) for key, each in value.items() if _known(each)}
            elif _known(value):
                found[name] = _settled(value, iter(()))
        return found

    def wait(self) -> None:
        """Wait for the copy from the device."""
        if self._ready is not None:
            self._ready.synchronize()

    def settled(self) -> dict[str, Any]:
        """Every field, complete."""
        self.wait()
        numbers = iter(self._numbers.tolist() if self.waiting else ())
        return {name: _settled(value, numbers) for name, value in self._fields.items()}


class DeferredLoss:
    """A loss on a device."""

    def __init__(self, loss: Any) -> None:
        torch = sys.modules["torch"]
        # A copy: the job may go on to compute in its place.
        self.reductions = [loss.reshape(1).to(torch.float64, copy=True).view(torch.int64)]

    def settled(self, numbers: Sequence[int]) -> str:
        value: float = struct.unpack("<d", struct.pack("<q", *numbers))[0]
        return value.hex()


class DeferredLosses:
    """A loss of several numbers on a device."""

    def __init__(self, fingerprint: Fingerprint) -> None:
        self._fingerprint = fingerprint
        self.reductions = fingerprint.reductions

    def settled(self, numbers: Sequence[int]) -> str:
        return f"tensor:{self._fingerprint.settled(numbers)}"


def exact(loss: Any) -> str | DeferredLoss | DeferredLosses:
    """A loss as an exact string; a part that follows later where reading it now would stall the device."""
    if not is_tensor(loss):
        return float(loss).hex()
    loss = getattr(loss, "_local_tensor", loss).detach()
    if loss.numel() != 1:
        fingerprint = Fingerprint()
        fingerprint.tensor(loss)
        return DeferredLosses(fingerprint) if fingerprint.reductions else f"tensor:{fingerprint.hexdigest()}"
    return float(loss.item()).hex() if loss.is_cpu else DeferredLoss(loss)


def _parts(value: Any) -> Iterator[DeferredPart]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _parts(each)
    elif not isinstance(value, (str, bool, float)):
        yield value


def _known(value: Any) -> bool:
    return not any(part.reductions for part in _parts(value))


def _settled(value: Any, numbers: Iterator[int]) -> Any:
    """Complete a value. The order is that of `_parts`, so that each part gets its own numbers."""
    if isinstance(value, Mapping):
        return {key: _settled(each, numbers) for key, each in value.items()}
    if isinstance(value, list):
        return [_settled(each, numbers) for each in value]
    if isinstance(value, (str, bool, float)):
        return value
    return value.settled([next(numbers) for vector in value.reductions for _ in range(len(vector))])
