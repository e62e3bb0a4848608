"""`multilinear`: the sums of a fingerprint on an NVIDIA device, in one pass over the tensor.

torch's own operators make two passes, and write and read twice as many bytes as the tensor has in between. The kernel is
in multilinear.ptx, which the driver translates, so nothing is compiled and nothing is imported. Where it cannot be had,
torch computes the same numbers.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

#: Words of a block; as in multilinear.cu.
TILE, THREADS = 4096, 256
#: Blocks that fill the largest device several times over; more would add up less before they meet.
BLOCKS = 2048


def multilinear(words: Any, weights: Any, chunk: int) -> Any:
    """For each chunk of a flat int32 tensor the sum of the products with the weights: an int64 vector on its device; None
    where there is no kernel for it. Waits for nothing."""
    if words.device.type != "cuda":
        return None
    import torch  # already imported: the tensor exists

    with torch.cuda.device(words.device):
        kernel = _kernel(words.device.index)
        if kernel is None:
            return None
        count = words.numel()
        sums = torch.zeros(-(-count // chunk), dtype=torch.int64, device=words.device)
        across = -(-min(count, chunk) // TILE)
        stream = torch.cuda.current_stream().cuda_stream
        return sums if kernel(words, count, weights, chunk, sums, (across, _down(len(sums), across)), stream) else None


def _down(chunks: int, across: int) -> int:
    return max(1, min(chunks, BLOCKS // across))


@cache
def _kernel(device: int) -> Any:
    """The kernel on a device, whose context must be current: a function that says whether it was launched. None where
    the driver has none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        text = Path(__file__).with_suffix(".ptx").read_bytes() + b"\0"
        if driver.cuModuleLoadData(ctypes.byref(module), text):
            return None
        if driver.cuModuleGetFunction(ctypes.byref(function), module, b"chaoskit_multilinear"):
            return None
        launch = driver.cuLaunchKernel
    except (OSError, AttributeError):
        return None

    def run(words: Any, count: int, weights: Any, chunk: int, sums: Any, blocks: tuple[int, int], stream: int) -> bool:
        values = [ctypes.c_int64(each) for each in (words.data_ptr(), count, weights.data_ptr(), chunk, sums.data_ptr())]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
        size = [ctypes.c_uint(each) for each in (*blocks, 1, THREADS, 1, 1, 0)]
        return not launch(function, *size, ctypes.c_void_p(stream), pointers, None)

    return run
