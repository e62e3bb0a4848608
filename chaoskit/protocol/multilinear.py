"""Computes the sums of fingerprints on an NVIDIA device, in one pass over the tensors, many at once (`together`).

torch's own operators take two kernels for each tensor, and between them write and read twice as many bytes as the
tensor has. Our kernel is in multilinear.ptx, which the driver translates: nothing is compiled or imported. If the
kernel is not available, torch computes the same numbers.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

#: The 4-byte words of a chunk; each chunk has its own sum. As in multilinear.cu, and so are the next three.
CHUNK = 1 << 21
#: The columns of a unit, the chunks of a unit, and the threads of a block.
TILE, DEEP, THREADS = 4096, 8, 256
#: Blocks for each multiprocessor of a device.
BLOCKS = 4
#: Sums for which there is room at once.
ROOM = 1 << 14

#: Launches the kernel over a table of so many tensors and units, with these weights.
Launch = Callable[[Any, int, int, Any], bool]


class _LaunchTable:
    """Tensors of one device whose sums one launch computes."""

    def __init__(self, device: Any, launch: Launch, room: int) -> None:
        self._device, self._launch, self._room = device, launch, room
        self._table: list[int] = []
        self._units = self._used = 0
        self._weights: Any = None
        self._sums: Any = None
        self._held: list[Any] = []

    def add(self, words: Any, weights: Any) -> Any:
        """The sums of a tensor: a vector that is complete after `run`."""
        import torch  # already imported: the tensor exists

        count = words.numel()
        chunks = -(-count // CHUNK)
        if self._sums is None or self._used + chunks > len(self._sums):
            self._sums, self._used = torch.zeros(max(chunks, self._room), dtype=torch.int64, device=self._device), 0
        sums = self._sums.narrow(0, self._used, chunks)
        self._table += (words.data_ptr(), count, sums.data_ptr(), self._units)
        self._units += -(-min(count, CHUNK) // TILE) * -(-chunks // DEEP)
        self._used += chunks
        self._held.append(words)
        if self._weights is None or len(weights) > len(self._weights):
            self._weights = weights
        return sums

    def run(self) -> None:
        """Compute the sums, after the work that is already queued. Raises RuntimeError if the driver refuses."""
        import torch  # already imported: tensors exist

        if not self._table:
            return
        table = torch.empty(len(self._table), dtype=torch.int64, device="cpu", pin_memory=True)
        table.copy_(torch.tensor(self._table, dtype=torch.int64, device="cpu"))
        there = torch.empty(len(table), dtype=torch.int64, device=self._device)
        there.copy_(table, non_blocking=True)
        if not self._launch(there, len(table) // 4, self._units, self._weights):
            raise RuntimeError("the driver did not launch the kernel that computes fingerprints")


class _Open(threading.local):
    """The batches that this thread collects, by device; None if each tensor has its own launch."""

    batches: dict[Any, _LaunchTable] | None = None


_open = _Open()


def multilinear(words: Any, weights: Any) -> Any:
    """Compute, for each chunk of a flat int32 tensor, the sum of the products with the weights. Returns an int64 vector
    on its device, which is complete once the work that is queued there is done, and within `together` once that has
    ended. None if there is no kernel for it. Does not wait."""
    if words.device.type != "cuda":
        return None
    batches, device = _open.batches, words.device
    if batches is not None and device in batches:
        return batches[device].add(words, weights)
    launch = _kernel(device.index)
    if launch is None:
        return None
    batch = _LaunchTable(device, launch, ROOM if batches is not None else 0)
    sums = batch.add(words, weights)
    if batches is None:
        _run(device, batch)
    else:
        batches[device] = batch
    return sums


@contextmanager
def together() -> Iterator[None]:
    """Compute the sums of all tensors that are requested within this context, in one launch at its end."""
    if _open.batches is not None:
        yield
        return
    _open.batches = {}
    try:
        yield
    finally:
        batches, _open.batches = _open.batches, None
        for device, batch in batches.items():
            _run(device, batch)


def _run(device: Any, batch: _LaunchTable) -> None:
    import torch  # already imported: tensors exist

    with torch.cuda.device(device):
        batch.run()


@cache
def _kernel(device: int) -> Launch | None:
    """The kernel on a device; None if the driver cannot load it."""
    import torch  # already imported: a tensor exists

    with torch.cuda.device(device):
        try:
            driver = ctypes.CDLL("libcuda.so.1")
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            text = Path(__file__).with_suffix(".ptx").read_bytes() + b"\0"
            if driver.cuModuleLoadData(ctypes.byref(module), text):
                return None
            if driver.cuModuleGetFunction(ctypes.byref(function), module, b"chaoskit_multilinear"):
                return None
            start = driver.cuLaunchKernel
        except (OSError, AttributeError):
            return None
    most = BLOCKS * torch.cuda.get_device_properties(device).multi_processor_count

    def launch(table: Any, count: int, units: int, weights: Any) -> bool:
        values = (ctypes.c_void_p(table.data_ptr()), ctypes.c_int(count), ctypes.c_void_p(weights.data_ptr()))
        pointers = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
        size = map(ctypes.c_uint, (min(units, most), 1, 1, THREADS, 1, 1, 0))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        return not start(function, *size, stream, pointers, None)

    return launch
