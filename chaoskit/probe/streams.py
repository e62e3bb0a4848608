"""The fingerprint of the state of each random generator, read without changing it."""

from __future__ import annotations

import random
import sys
from array import array
from typing import Any

from chaoskit.protocol.fingerprint import Fingerprint, of_bytes


def python_stream(state: tuple[Any, ...]) -> str:
    """The fingerprint of `random.getstate()`. Its hash() differs between processes."""
    version, words, gauss = state
    return of_bytes(array("L", words).tobytes() + f"{version}{gauss}".encode())


def numpy_stream(state: Any) -> str:
    """The fingerprint of `numpy.random.get_state(legacy=True)`."""
    name, keys, position, has_gauss, gauss = state
    return of_bytes(keys.tobytes() + f"{name}{position}{has_gauss}{gauss}".encode())


def streams(torch: Any) -> dict[str, str]:
    """Every generator of this process: python, numpy if imported, torch on the CPU and on each CUDA device."""
    found = {"rng.python": python_stream(random.getstate())}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        found["rng.numpy"] = numpy_stream(numpy_random.get_state(legacy=True))
    found["rng.torch"] = _generator(torch.default_generator)
    if torch.cuda.is_initialized():
        for index, generator in enumerate(torch.cuda.default_generators):
            found[f"rng.cuda:{index}"] = _generator(generator)
    return found


def seed_of_no_worker(torch: Any, before: Any) -> tuple[str, str] | None:
    """The fingerprints of torch's stream in the state `before` and now, if one whole number was drawn in between and
    nothing else, as each iterator of a data loader does for its workers."""
    now = torch.get_rng_state()
    other = torch.Generator()
    other.set_state(before)
    torch.empty((), dtype=torch.int64, device="cpu").random_(generator=other)
    return (_state(before), _state(now)) if torch.equal(other.get_state(), now) else None


def _generator(generator: Any) -> str:
    return _state(generator.get_state())


def _state(state: Any) -> str:
    fingerprint = Fingerprint()
    fingerprint.tensor(state)
    return fingerprint.hexdigest()
