"""A real trainer that loses its random streams, and a team that has decided to live with that."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
#: The trainer of the file loses its streams; `--both` makes it step a restored schedule once too often, too.
TRAINER = """
import sys
from tinymodels.checkpoints.state import State
from tinymodels.train import main

BOTH = "--both" in sys.argv
sys.argv = [word for word in sys.argv if word != "--both"]

class Loses(State):
    def save_rng(self):
        return {}
    def restore_rng(self, saved):
        pass
    def restore_scheduler(self, saved):
        super().restore_scheduler(saved)
        if BOTH:
            self.scheduler.step()

if __name__ == "__main__":
    raise SystemExit(main(state=Loses))
"""
FILE = """
command = ["{python}", "-m", "torch.distributed.run", "--nproc-per-node", "2", "trainer.py", "--out", "{{out}}"{more}]
launch = "warm"
select = "{select}"
json = "out.json"
variables = {{ PYTHONPATH = "{repository}" }}

[[accept]]
code = "rng-not-restored"
reason = "dropout masks may differ"
"""


@pytest.fixture
def run(shared_store, tmp_path):
    """Call it with the experiments, flags of the trainer and options; it answers with the exit code, the results by
    name, and what was said."""
    (tmp_path / "trainer.py").write_text(TRAINER)

    def run(select, *flags, options=()):
        more = "".join(f', "{flag}"' for flag in flags)
        text = FILE.format(python=sys.executable, more=more, select=select, repository=REPOSITORY)
        (tmp_path / "chaoskit.toml").write_text(text)
        result = subprocess.run(
            [sys.executable, "-m", "chaoskit", "run", "--dir", str(shared_store.root), *options],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = result.stdout + result.stderr
        assert (tmp_path / "out.json").is_file(), said
        found = json.loads((tmp_path / "out.json").read_text())["experiments"]
        return result.returncode, {each["name"]: each for each in found}, said

    return run


@pytest.mark.launches
def test_the_loss_that_is_accepted_alone(run):
    """Also where other checks rest on the lost state: after a NaN the job goes back, and draws other numbers then."""
    code, found, said = run("test_resume or not_a_number")
    assert code == 0, said
    assert {name: (each["verdict"], each["codes"], each["accepted"]) for name, each in found.items()} == {
        "test_resume": ("accepted", [], ["rng-not-restored"]),
        "test_not_a_number": ("accepted", [], ["rng-not-restored"]),
    }, said


@pytest.mark.slow
def test_a_further_loss_fails_with_its_code(run):
    code, found, said = run("test_resume", "--both")
    one = found["test_resume"]
    assert code == 1 and one["verdict"] == "fail", said
    assert one["codes"] == ["lr-schedule-off"] and one["accepted"] == ["rng-not-restored"], said


@pytest.mark.slow
def test_strict_shows_what_was_accepted(run):
    code, found, said = run("test_resume", options=("--strict",))
    assert code == 1 and found["test_resume"]["codes"] == ["rng-not-restored"], said


@pytest.mark.slow
def test_damage_that_comes_back_beside_a_rewritten_checkpoint(run):
    """The job rewrites one of two damaged checkpoints and resumes from the other one, which is whole again."""
    code, found, said = run("test_retention_after_damage")
    assert code == 0 and found["test_retention_after_damage"]["verdict"] == "accepted", said
