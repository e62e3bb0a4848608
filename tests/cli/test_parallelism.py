"""How many experiments go side by side."""

import pytest

from chaoskit.cli import parallelism

RUN = ["python", "-m", "torch.distributed.run"]


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Eight cores, 64 GiB, no accelerator."""
    monkeypatch.setattr(parallelism.os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(parallelism, "memory", lambda line: 64 * parallelism.GIB)
    monkeypatch.setattr(parallelism.glob, "glob", lambda pattern: [])


@pytest.mark.parametrize(
    ("command", "fits"),
    [
        (["torchrun", "--nproc-per-node", "2", "train.py"], 8),
        (["/venv/bin/torchrun", "--nproc_per_node=4", "train.py"], 4),
        ([*RUN, "--nproc-per-node", "64", "train.py"], 1),
        ([*RUN, "train.py"], 16),
        ([*RUN, "--nproc-per-node", "gpu", "train.py"], 1),
        (["python", "train.py"], 1),
        (["./launch.sh"], 1),
    ],
)
def test_as_many_as_the_cores_take(command, fits):
    assert parallelism.fitting(command, experiments=19) == fits


def test_no_more_than_there_are(monkeypatch):
    job = ["torchrun", "--nproc-per-node", "2", "train.py"]
    assert parallelism.fitting(job, experiments=3) == 3
    monkeypatch.setattr(parallelism, "memory", lambda line: 4 * parallelism.GIB)
    assert parallelism.fitting(job, experiments=19) == 2
    monkeypatch.setattr(parallelism.glob, "glob", lambda pattern: ["/dev/nvidia0"])
    assert parallelism.fitting(job, experiments=19) == 1


def test_a_wish_goes_over_what_fits():
    assert parallelism.chosen("3", RUN, experiments=9) == "3"
    assert parallelism.chosen(None, [*RUN, "train.py"], experiments=9) == "9"
    assert parallelism.chosen(None, ["./launch.sh"], experiments=9) is None
