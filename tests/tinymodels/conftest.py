"""A trainer inside the test's own process: a world of one, joined and left again."""

import random

import numpy
import pytest
import torch


@pytest.fixture
def train(monkeypatch):
    """Run the trainer in this process, and leave torch and the streams as they were."""
    from tinymodels.train import main

    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    streams = random.getstate(), numpy.random.get_state(), torch.get_rng_state()

    def run(out, *flags, **parts):
        return main(["--out", str(out), "--device", "cpu", *map(str, flags)], **parts)

    yield run
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(strict)
    random.setstate(streams[0])
    numpy.random.set_state(streams[1])
    torch.set_rng_state(streams[2])
