"""`chaoskit prove --all`: all experiments of a suite that show lost state are repeated with it put back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.cli import main
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode
from chaoskit.studies.nights.archive import Archive
from tests.warm_modes import teach

REPOSITORY = Path(__file__).resolve().parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
SHOWING = {"test_resume", "test_one_rank_mid_epoch"}


@pytest.mark.parametrize("words", [[], ["a-run", "--all"]])
def test_a_run_or_a_suite_is_named(words, tmp_path, capsys):
    assert main.main(["prove", "--dir", str(tmp_path), *words]) == ExitCode.USAGE
    assert "name a stored RUN, or a suite with --all" in capsys.readouterr().err


def test_a_suite_that_is_not_there(tmp_path, capsys):
    assert main.main(["prove", "--dir", str(tmp_path), "--all", "last"]) == ExitCode.USAGE
    assert "contains no suite" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.launches
def test_of_a_broken_trainer_all_experiments_pass_with_the_streams_put_back(tmp_path, capsys):
    store, trainer = tmp_path / "store", ["-m", "tinymodels.gallery.rng_missing", "--out", "{out}"]
    teach(Store(store))
    options = [
        "--dir",
        str(store),
        "--launch",
        "warm",
        "--no-proof",
        "-k",
        " or ".join([*SHOWING, "test_control"]),
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "chaoskit", "run", *options, "--", *TORCHRUN, *trainer],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == ExitCode.FAIL, ran.stdout + ran.stderr
    assert "   Prove: chaoskit prove " in ran.stdout and "Proven" not in ran.stdout
    answer = tmp_path / "answer.json"
    typed = ["prove", "--all", "--dir", str(store), "--launch", "warm", "--json", str(answer)]
    assert main.main(typed) == ExitCode.PASS
    said = capsys.readouterr().out
    assert said.startswith(
        "rng-not-restored: proven: with the torch CPU stream put back, 2 of 2 experiments pass"
    ), said
    told = json.loads(answer.read_text())
    assert {proof["experiment"] for proof in told["proofs"]} == SHOWING
    assert {proof["outcome"] for proof in told["proofs"]} == {"proven"}
    assert len({proof["run"] for proof in told["proofs"]}) == 2
    # The suite keeps it, so that its pages say so.
    archive = Archive(Store(store))
    (problem,) = archive.read(archive.last()).problems
    assert problem.proof is not None and "2 of 2 experiments pass" in problem.proof.sentence
    # With a code that no experiment shows nothing is repeated.
    assert main.main([*typed, "--code", "ema-not-restored"]) == ExitCode.PASS
    assert (
        "nothing to prove: no experiment of the suite lost state that these codes name" in capsys.readouterr().out
    )
