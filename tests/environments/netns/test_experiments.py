"""Experiments on virtual hosts against the trainer that survives everything, side by side, as a user runs them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.environments import NetnsEnvironment
from tests.users import must_have

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def hosts(request):
    must_have(request, NetnsEnvironment.available())


def experiments(store, nodes, expression, *flags, launch="warm"):
    """pytest on the experiments of several nodes: what it printed."""
    result = subprocess.run(
        [
            sys.executable, "-m", "pytest", "experiments", "-v", "-p", "no:cacheprovider", "--chaos-env", "netns",
            "--chaos-nodes", nodes, "--chaos-require", "--chaos-dir", str(store.root), "--chaos-launch", launch,
            "-m", "nodes", "-k", expression, *flags,
        ],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    return said


def rows(said):
    """The rows of the table, by experiment: resumed from, last valid, steps lost."""
    found = re.findall(r"^(test_\S+)\s+pass\s+(\S+)\s+(\S+)\s+(\S+)", said, re.MULTILINE)
    return {name: tuple(cells) for name, *cells in found}


@pytest.mark.slow
def test_partitions_and_lost_nodes_side_by_side(shared_store):
    told = rows(experiments(shared_store, "2", "longer or shorter or one_way or worker_node or delay", "-n", "2"))
    assert len(told) == 5, told
    # Checkpoints come every ten steps, the second epoch is steps 21 to 40.
    for name in ("test_longer_than_the_timeout", "test_one_way", "test_worker_node"):
        assert told[name][:2] == ("30", "30"), told
    assert told["test_shorter_than_the_timeout"] == ("-", "-", "0")


@pytest.mark.slow
def test_shrinking_and_growing(shared_store):
    assert rows(experiments(shared_store, "1:2", "test_shrink_and_grow", launch="auto"))


@pytest.mark.slow
def test_a_disk_full_on_one_of_two_nodes(request, shared_store):
    must_have(request, NetnsEnvironment.storage_available())
    assert rows(experiments(shared_store, "2", "test_disk_full_on_one_node"))


@pytest.mark.exhaustive  # two nodes show the same in CI
def test_four_nodes(shared_store):
    assert rows(experiments(shared_store, "4", "test_rendezvous_host"))
