"""`chaoskit run --env kubernetes` as a user types it: real torchrun in pods of a team's image, on two nodes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from chaoskit.errors import ExitCode
from tests.docker_images import images
from tests.environments.kubernetes.conftest import connection, left  # noqa: F401
from tests.users import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.launches]

SCRIPT = "import runpy\nrunpy.run_module({module!r}, run_name='__main__')\n"
#: Pods have no links that could be made slow.
SKIPPED = "needs CanDegrade, which environment 'kubernetes' lacks: use --env docker or --env netns"


@pytest.fixture
def run(machines, connection, tmp_path):  # noqa: F811
    """Runs experiments on a trainer that lies on the volume; returns the exit code and the results by name."""
    cluster, store = machines.cluster, machines.volume / "store"
    shutil.copytree(REPOSITORY / "tinymodels", store / "code" / "tinymodels")

    def experiments(module, chosen):
        script = store / "code" / "train.py"
        script.write_text(SCRIPT.format(module=module))
        words = [
            sys.executable, "-m", "chaoskit", "run", "--env", "kubernetes", "--image", images.image(),
            "--context", cluster.context, "--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.namespace,
            "--volume", f"runs:{machines.volume}", "--dir", str(store), "--address", machines.address,
            "--nodes", "2", "-k", chosen, "-n", "1", "--no-proof", "--json", str(tmp_path / "found.json"),
            "--", "torchrun", "--nproc-per-node", "1", str(script), "--out", "{out}",
        ]  # fmt: skip
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=900)
        assert (tmp_path / "found.json").exists(), done.stderr
        found = json.loads((tmp_path / "found.json").read_text())["experiments"]
        assert left(connection, cluster.namespace) == []
        return done.returncode, {each["name"]: each for each in found}

    return experiments


def test_a_good_trainer_passes_on_pods(run):
    code, found = run("tinymodels.train", "one_rank_mid_epoch or worker_node or (ridden_out and delay)")
    assert {name: each["verdict"] for name, each in found.items()} == {
        "test_one_rank_mid_epoch": "pass",
        "test_worker_node": "pass",
        "test_ridden_out[delay]": "skipped",
    }, found
    assert SKIPPED in json.dumps(found["test_ridden_out[delay]"])
    assert code == ExitCode.PASS


def test_a_broken_trainer_is_caught_and_named_on_pods(run):
    code, found = run("tinymodels.gallery.rng_missing", "one_rank_mid_epoch")
    assert code == ExitCode.FAIL
    assert "rng-not-restored" in json.dumps(found["test_one_rank_mid_epoch"])
