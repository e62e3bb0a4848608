"""The same run twice gives the same bits. Without that, "resumed exactly" has no meaning.

So the algorithms are deterministic, and the streams of random numbers are part of every checkpoint.
"""

import hashlib
import os
import random
from typing import Any, cast

import numpy
import torch


def make_deterministic() -> None:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts
    torch.set_num_threads(1)  # the order of a sum depends on the number of threads
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def seed_everything(seed: int) -> None:
    """Seed every stream that `save_streams` saves."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)  # and those of CUDA


def seed_of_new_rank(seed: int, rank: int, step: int) -> int:
    """Derive a seed for a rank that did not exist when the checkpoint was saved.

    It differs from the seeds of all other ranks, and is the same at each resume from this step. An uninterrupted run
    has other streams here. So after a change of ranks the losses agree within a band, and exactly only without
    dropout.
    """
    words = f"{seed} {rank} {step}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=7).digest(), "big")


def save_streams(device: torch.device) -> dict[str, Any]:
    """Return the state of every stream of this rank, as plain numbers and tensors (no pickles)."""
    name, keys, position, has_gauss, cached = cast(tuple[Any, ...], numpy.random.get_state())
    saved: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(keys.copy()), position, has_gauss, cached),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        saved["cuda"] = torch.cuda.get_rng_state(device)
    return saved


def restore_streams(saved: dict[str, Any], device: torch.device) -> None:
    name, keys, position, has_gauss, cached = saved["numpy"]
    random.setstate(saved["python"])
    numpy.random.set_state((name, keys.numpy(), position, has_gauss, cached))
    torch.set_rng_state(saved["torch"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(saved["cuda"], device)
