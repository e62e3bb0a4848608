"""What people type to train: however the ranks come to life, both are seen, and the one that is named is killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.runner import stored
from tests.users import REPOSITORY

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
LOOP, SPAWNED = str(HERE / "loop.py"), [sys.executable, str(HERE / "spawned.py")]
COMMANDS = {
    "torchrun script": ["torchrun", "--nproc-per-node", "2", LOOP],
    "torchrun module": ["torchrun", "--nproc-per-node=2", "-m", "tests.commands.loop"],
    "python -m": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", LOOP],
    "spawn": SPAWNED,
    "subprocess": [sys.executable, str(HERE / "parent.py")],
    "shell": [str(HERE / "launch.sh"), LOOP],
}


@pytest.fixture
def sit(shared_store, tmp_path):
    """Kills rank 1 of a command between two saves; what was said of it, and the run."""
    torchrun = tmp_path / "bin" / "torchrun"  # as pip installs it; it need not be on the path here
    torchrun.parent.mkdir()
    torchrun.write_text(f"#!{sys.executable}\nfrom torch.distributed.run import main\n\nmain()\n")
    torchrun.chmod(0o755)
    env = {**os.environ, "PATH": f"{torchrun.parent}:{os.environ['PATH']}"}

    def run(command, *options):
        answer = tmp_path / "answer.json"
        words = ["-k", "one_rank_mid_epoch", "--dir", str(shared_store.root), "--json", str(answer), *options]
        done = subprocess.run(
            [sys.executable, "-m", "chaoskit", "run", *words, "--", *command, "{out}"],
            cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert answer.exists(), done.stdout + done.stderr
        (told,) = json.loads(answer.read_text())["experiments"]
        return told, stored(shared_store.resolve(told["run"]), shared_store)

    return run


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command(sit, command):
    told, run = sit(command)
    assert told["verdict"] == "pass", told
    struck, resumed = run.history.incarnations
    assert sorted(struck.ranks) == sorted(resumed.ranks) == [0, 1]
    assert [len(life.steps) for life in resumed.ranks.values()] == [4, 4]  # from step 6 to 10
    (fault,) = run.history.faults
    assert fault.evidence["gone"] == [struck.ranks[1].pid]


def test_what_is_forgotten_where_ranks_are_spawned(sit):
    told, _ = sit(SPAWNED, "--resume-args=--forget")
    assert (told["verdict"], told["codes"]) == ("fail", ["rng-not-restored"])
