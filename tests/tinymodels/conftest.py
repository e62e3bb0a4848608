"""A trainer inside the test's own process, a world of one, joined and left again; and one of two ranks."""

import contextlib
import gc
import itertools
import os
import random
import socket
import sys
import textwrap
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import load_file

from tests.probe.started import Started

CHECKOUT = Path(__file__).resolve().parents[2]
#: Fixtures that train.
TRAINING = {"train", "two_ranks", "launch"}
#: Tests that train and belong to `make test`: one way through each room. All others that train are slow.
QUICK = {
    "test_the_losses_are_those_of_always[gpt]",
    "test_how_checkpoints_are_written_changes_no_bit",
    "test_resumes_exactly[gpt]",
    "test_resumes_exactly_from_a_delta[ddp]",
    "test_the_first_store_is_gone[async]",
    "test_any_flipped_bit_is_found",
    "test_tiers_of_a_run",
    "test_a_write_that_fails_is_tried_again[sync]",
    "test_a_failed_save_is_no_save",
    "test_a_bad_step_is_left_out",
    "test_what_is_not_finite_is_not_published[model-flags0-model head.weight]",
    "test_the_newest_two_are_kept",
    "test_goes_back_and_past_the_samples[flags0]",
    "test_saves_and_leaves_with_143",
    "test_training_does_not_notice[ddp]",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and TRAINING & {*item.fixturenames} and item.name not in QUICK:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def train(monkeypatch):
    """Run the trainer in this process, and leave torch and the streams as they were."""
    from tinymodels.train import main

    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUBLAS_WORKSPACE_CONFIG"):
        monkeypatch.setenv(name, "")  # so that it is put back whoever sets it: the trainer sets the last
        monkeypatch.delenv(name)
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    streams = random.getstate(), numpy.random.get_state(), torch.get_rng_state()

    def run(out, *flags, **parts):
        return main(["--out", str(out), "--device", "cpu", *map(str, flags)], **parts)

    gc.freeze()  # the trainer collects cycles when it leaves, and shall not search all that pytest has
    yield run
    gc.unfreeze()
    if torch.distributed.is_initialized():  # the trainer raised
        torch.distributed.destroy_process_group()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(strict)
    random.setstate(streams[0])
    numpy.random.set_state(streams[1])
    torch.set_rng_state(streams[2])


@pytest.fixture
def two_ranks(tmp_path):
    """Start two ranks, without torchrun: `with two_ranks(out, *flags) as ranks`. They are killed in the end.

    `part` is a piece of program that runs in each rank before training and may set `parts`, the
    parts of `main` to exchange.
    They are forked from two parents in turns, so that they order sets differently, as fresh ones do.
    """
    program = f"import os, sys\nsys.path.insert(0, {str(CHECKOUT)!r})\nfrom tinymodels.train import main\n"
    program += "rank, parts = int(os.environ['RANK']), {}\n"
    launches = itertools.count()

    @contextlib.contextmanager
    def start(out, *flags, part=""):
        script = tmp_path / "program.py"
        script.write_text(program + textwrap.dedent(part) + "\nraise SystemExit(main(**parts))\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        command = [sys.executable, str(script), "--out", str(out), "--device", "cpu", *map(str, flags)]
        number = next(launches)
        ranks = []
        try:
            for rank in range(2):
                turn = {"CHAOSKIT_LAUNCH": str(number + rank), "RANK": str(rank), "WORLD_SIZE": "2"}
                log = tmp_path / f"launch-{number}-{rank}.txt"
                ranks.append(Started(command, env={**os.environ, **place, **turn}, cwd=tmp_path, log=log))
            yield ranks
        finally:
            for rank in ranks:
                rank.close()

    return start


@pytest.fixture
def launch(two_ranks):
    """Two ranks, to their end. Returns their exit codes and what rank 0 said.

    `seen` is called with each line of rank 0, and with the processes.
    """

    def run(out, *flags, part="", seen=lambda line, ranks: None, timeout=60):
        with two_ranks(out, *flags, part=part) as ranks:
            for line in ranks[0].lines():
                seen(line, ranks)
            return [rank.wait(timeout=timeout) for rank in ranks], ranks[0].output

    return run


@pytest.fixture
def assert_same_end():
    """The same model, and the same bytes in every file that a checkpoint has of the state."""

    def check(one, two):
        a, b = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
        assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
        last = max((one / "checkpoints").iterdir())
        files = [p.relative_to(last) for p in last.rglob("*.*") if p.suffix in (".pt", ".distcp")]
        assert len(files) >= 3
        for file in files:
            twin = two / "checkpoints" / last.name / file
            assert (last / file).read_bytes() == twin.read_bytes(), f"{file} differs"
        assert (one / "metrics.jsonl").read_bytes() == (two / "metrics.jsonl").read_bytes()

    return check
