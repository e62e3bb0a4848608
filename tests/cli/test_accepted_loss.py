"""A real trainer that loses its random streams, and a team that has decided to live with that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRAINER = Path(__file__).resolve().parents[1] / "trainers" / "losing.py"
FILE = """
launch = "warm"

[[accept]]
code = "rng-not-restored"
reason = "dropout masks may differ"
"""


@pytest.fixture
def run(shared_store, tmp_path):
    """Call it with the experiments, flags of the trainer and options; it answers with the exit code, the results by
    name, and what was said. All tests are called in one directory, so that they share references."""
    place = shared_store.root.parent / "accepted-loss"
    place.mkdir(exist_ok=True)
    if not (place / "chaoskit.toml").exists():
        (tmp_path / "chaoskit.toml").write_text(FILE)
        (tmp_path / "chaoskit.toml").replace(place / "chaoskit.toml")

    def run(select, *flags, options=()):
        answer = tmp_path / "out.json"
        told = ["--dir", str(shared_store.root), "--json", str(answer), "--no-proof", "-n", "0", "-k", select, *options]
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(TRAINER), *flags]
        result = subprocess.run(
            [sys.executable, "-m", "chaoskit", "run", *told, "--", *command, "--out", "{out}"],
            cwd=place, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = result.stdout + result.stderr
        assert answer.is_file(), said
        found = json.loads(answer.read_text())["experiments"]
        return result.returncode, {each["name"]: each for each in found}, said

    return run


@pytest.mark.slow
@pytest.mark.launches
def test_the_loss_that_is_accepted_alone(run):
    """Also where other checks rest on the lost state: after a NaN the job goes back, and draws other numbers then."""
    code, found, said = run("test_resume or not_a_number")
    assert code == 0, said
    assert {name: (each["verdict"], each["codes"], each["accepted"]) for name, each in found.items()} == {
        "test_resume": ("accepted", [], ["rng-not-restored"]),
        "test_not_a_number": ("accepted", [], ["rng-not-restored"]),
    }, said


@pytest.mark.exhaustive
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
