"""How fast fingerprints are on a device, as a share of its memory bandwidth, which a copy on the device measures beside
it; and whether the kernel and torch's operators come to the same numbers.

    python benchmarks/gpu/throughput.py                        # on a GPU
    python benchmarks/gpu/throughput.py --device cpu --mib 8   # only to see that it runs
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

from table import Figure, parser, show  # noqa: E402

from chaoskit.protocol import fingerprint  # noqa: E402
from chaoskit.protocol.multilinear import CHUNK, together  # noqa: E402


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--mib", type=int, default=4096)
    arguments.add_argument("--rounds", type=int, default=20)
    told = arguments.parse_args()
    words = told.mib << 18
    whole = torch.arange(words, dtype=torch.int32, device=told.device)
    target = torch.empty_like(whole)
    copied = _seconds(lambda: target.copy_(whole), told.rounds, told.device)
    bandwidth = 2 * whole.nbytes / copied
    figures = [Figure("copy on the device, bytes read and written", bandwidth / 1e9, "GB/s")]
    for name, tensors in _sets(whole).items():
        size = sum(tensor.nbytes for tensor in tensors)
        ours = _seconds(lambda those=tensors: _all(those), told.rounds, told.device)
        cpu = _seconds(lambda those=tensors: _all(those), told.rounds, told.device, wait=False)
        by_torch = _seconds(lambda those=tensors: _all_by_torch(those), max(1, told.rounds // 4), told.device)
        target_share = ">= 0.8" if told.device == "cuda" and len(tensors) == 1 else ""
        figures += [
            Figure(f"{name}: fingerprints / bandwidth", size / ours / bandwidth, "share", target_share),
            Figure(f"{name}: fingerprints", ours * 1e3, "ms"),
            Figure(f"{name}: of the thread that trains", cpu * 1e3, "ms"),
            Figure(f"{name}: with torch's operators / bandwidth", size / by_torch / bandwidth, "share"),
        ]
    agreement = Figure("tensors for which both come to the same", *_agreement(told.device))
    figures.append(agreement)
    if told.device == "cuda":
        kernel = fingerprint.multilinear(whole, fingerprint.weights_on(whole.device, CHUNK))
        figures.append(Figure("the kernel is there", float(kernel is not None), "", ">= 1"))
        weights = sum(each.nbytes for each in fingerprint._weights.values())
        figures.append(Figure("memory of the weights", weights / 2**20, "MiB"))
    show(f"Fingerprints on {_name(told.device)}", figures, json_file=told.json)
    sys.exit(not agreement.met)


def _sets(whole: Any) -> dict[str, list[Any]]:
    """The same memory as one tensor, as those of a large model, and as those of a small one."""
    count = len(whole)
    return {
        "one tensor": [whole],
        "in tensors of 16 MiB": list(whole.split(1 << 22)),
        "200 tensors of 256 KiB": list(whole[: min(count, 200 << 16)].split(1 << 16)),
    }


def _all(tensors: list[Any]) -> list[Any]:
    with together():
        return [vector for tensor in tensors for vector in fingerprint.reduce_on_device(tensor)]


def _all_by_torch(tensors: list[Any]) -> None:
    kernel, fingerprint.multilinear = fingerprint.multilinear, lambda *_: None
    try:
        _all(tensors)
    finally:
        fingerprint.multilinear = kernel


def _numbers(tensor: Any) -> list[int]:
    return [number for vector in fingerprint.reduce_on_device(tensor) for number in vector.tolist()]


def _agreement(device: str) -> tuple[float, str, str]:
    """How many tensors of odd sizes, at odd places and of other types have the same numbers by either way."""
    generator = torch.Generator().manual_seed(1)
    sizes = [1, 2, 3, 255, 256, 4095, 4096, 4097, 1 << 20, (1 << 21) - 1, 1 << 21, (1 << 21) + 1, 5 * (1 << 21) + 4099]
    asked = []
    for size in sizes:
        whole = torch.randint(-(1 << 31), (1 << 31) - 1, (size + 3,), generator=generator).to(torch.int32).to(device)
        asked += [whole[:size], whole[1 : size + 1], whole[3:].view(torch.float32), whole[: size].view(torch.bfloat16)]
        asked += [whole[:size].view(torch.uint8)[1:], whole[: size // 2 * 2].view(torch.float64)]
    alike, alone = 0, []
    for tensor in asked:
        ours = _numbers(tensor)
        kernel, fingerprint.multilinear = fingerprint.multilinear, lambda *_: None
        alone.append(_numbers(tensor))
        alike += ours == alone[-1] == _numbers(tensor.cpu())
        fingerprint.multilinear = kernel
    alike += [vector.tolist() for vector in _all(asked)] == [
        each for numbers, tensor in zip(alone, asked, strict=True) for each in _as_vectors(numbers, tensor)
    ]
    return float(alike), f"of {len(asked) + 1}", f">= {len(asked) + 1}"


def _as_vectors(numbers: list[int], tensor: Any) -> list[list[int]]:
    """The numbers in as many vectors as the tensor has."""
    numbers, vectors = numbers[:], fingerprint.reduce_on_device(tensor)
    return [[numbers.pop(0) for _ in vector.tolist()] for vector in vectors]


def _seconds(action: Callable[[], object], rounds: int, device: str, *, wait: bool = True) -> float:
    """The median; where it is not waited for the device, of the time in which the work is handed out."""
    taken = []
    for _ in range(rounds + 2):
        _wait(device)
        begun = time.perf_counter()
        action()
        if wait:
            _wait(device)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken[2:])


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _name(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else device


if __name__ == "__main__":
    main()
