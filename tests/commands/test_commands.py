"""What people type to train: however the ranks come to life, both are seen, and the one that is named is killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.engine.runner import stored
from tests.users import REPOSITORY

HERE = Path(__file__).parent
LOOP, SPAWNED = str(HERE / "loop.py"), [sys.executable, str(HERE / "spawned.py")]
#: Programs as pip installs them, which need not be on the path here: where the function lies that each calls.
INSTALLED = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.accelerate_cli"}
COMMANDS = {
    "torchrun script": ["torchrun", "--nproc-per-node", "2", LOOP],
    "torchrun module": ["torchrun", "--nproc-per-node=2", "-m", "tests.commands.loop"],
    "python -m": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", LOOP],
    "accelerate": [
        *("accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"),
        *("--main_process_port", "0", "--mixed_precision", "no", "--dynamo_backend", "no", LOOP),
    ],
    "spawn": SPAWNED,
    "subprocess": [sys.executable, str(HERE / "parent.py")],
    "shell": [str(HERE / "launch.sh"), LOOP],
}
#: Those whose ranks are forked: they are started by torch's elastic agent.
WARM = ("torchrun script", "torchrun module", "python -m", "accelerate")
#: What other tests of every change type: test_battery.py is a module under `python -m`.
NIGHTLY = ("torchrun module", "python -m")


def when(name):
    """The marks of a command."""
    marks = pytest.mark
    return () if name == "torchrun script" else marks.exhaustive if name in NIGHTLY else marks.slow


@pytest.fixture
def sit(shared_store, tmp_path):
    """One experiment, if not told otherwise a kill of rank 1 between two saves; what was said of it, and the run."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in INSTALLED.items():
        (programs / name).write_text(f"#!{sys.executable}\nfrom {module} import main\n\nmain()\n")
        (programs / name).chmod(0o755)
    found = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def run(command, *options, experiment="one_rank_mid_epoch"):
        answer = tmp_path / "answer.json"
        # A reference is that of an environment: who needs no program from here shares it with other tests.
        env = os.environ if command[0] == sys.executable else found
        words = ["-k", experiment, "--dir", str(shared_store.root), "--json", str(answer), *options]
        done = subprocess.run(
            [sys.executable, "-m", "chaoskit", "run", *words, "--", *command, "{out}"],
            cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert answer.exists(), done.stdout + done.stderr
        (told,) = json.loads(answer.read_text())["experiments"]
        return told, stored(shared_store.resolve(told["run"]), shared_store)

    return run


@pytest.mark.launches
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=when(name)) for name in COMMANDS]
)
def test_a_command(sit, name):
    told, run = sit(COMMANDS[name])
    assert told["verdict"] == "pass", told
    how = {launch.how.partition(":")[0] for launch in run.history.launches}
    assert how == {"warm" if name in WARM else "cold"}
    struck, resumed = run.history.incarnations
    assert sorted(struck.ranks) == sorted(resumed.ranks) == [0, 1]
    assert [len(life.steps) for life in resumed.ranks.values()] == [4, 4]  # from step 6 to 10
    (fault,) = run.history.faults
    assert fault.evidence["gone"] == [struck.ranks[1].pid]


@pytest.mark.slow
def test_what_is_forgotten_where_ranks_are_spawned(sit):
    told, _ = sit(SPAWNED, "--resume-args=--forget", "--no-proof")
    assert (told["verdict"], told["codes"]) == ("fail", ["rng-not-restored"])


@pytest.mark.launches
def test_a_rank_whose_environment_does_not_tell_it_is_killed_before_the_first_collective(sit):
    told, run = sit(SPAWNED, experiment="before_first_collective")
    assert told["verdict"] == "pass", told
    struck, again = run.history.incarnations
    (fault,) = run.history.faults
    assert fault.evidence["gone"] == [struck.ranks[1].pid]
    assert not any(life.steps for life in struck.ranks.values())
    assert [len(life.steps) for life in again.ranks.values()] == [10, 10]
