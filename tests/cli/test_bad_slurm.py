"""`chaoskit run --env slurm` where Slurm, or the job, is not as it should be: a sentence, and an empty queue."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from chaoskit.environments.environment import RunSpec
from chaoskit.environments.slurm import batch_job
from chaoskit.environments.slurm.environment import SlurmEnvironment
from chaoskit.errors import ChaoskitError, ExitCode, UsageError
from tests.slurm_cluster.cluster import CLOSED

pytestmark = pytest.mark.launches


@pytest.fixture
def say(tmp_path):
    """Types `chaoskit run --env slurm`; returns the exit code, and what was said."""

    def run(*words, options=(), **variables):
        typed = [
            sys.executable, "-m", "chaoskit", "run", "--env", "slurm", "-k", "one_rank_mid_epoch", *options,
            "--", *words,
        ]  # fmt: skip
        done = subprocess.run(
            typed, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    (tmp_path / "job.sh").write_text('#!/bin/sh\n#SBATCH --nodes=2\nsleep 1000 # "$1"\n')
    return run


def test_no_slurm(say, tmp_path):
    code, said = say(sys.executable, "-c", "", "{out}", PATH=str(tmp_path))
    assert "there is no sbatch on the PATH: run chaoskit on a login node of the cluster" in said
    assert code == ExitCode.INCONCLUSIVE


def test_no_controller(say, slurm, tmp_path):
    conf = tmp_path / "slurm.conf"
    lines = slurm.conf.read_text().splitlines()
    conf.write_text("\n".join("SlurmctldPort=1" if line.startswith("SlurmctldPort") else line for line in lines))
    code, said = say("sbatch", "job.sh", "{out}", SLURM_CONF=str(conf))
    assert "squeue failed: " in said and "slurm controller" in said
    assert code == ExitCode.INTERNAL


@pytest.mark.parametrize(
    ("options", "words", "sentence"),
    [
        (
            ("--nodes", "2", "--partition", "nowhere"),
            ("job.sh",),
            "Slurm does not take the job: .*nvalid partition",
        ),
        (
            ("--nodes", "2", "--partition", CLOSED),
            ("job.sh",),
            "will not start: Slurm says PartitionDown: .*--partition",
        ),
        ((), ("job.sh",), "the job asks for 2 nodes, and chaoskit was told 1: give chaoskit --nodes 2"),
        (
            ("--nodes", "9"),
            ("-N9", "job.sh"),
            "will not start: Slurm says Partition(Config|NodeLimit): it asks for more nodes than",
        ),
        (
            ("--nodes", "2"),
            ("--array=0-1", "job.sh"),
            "--array=0-1: leave it out of the sbatch command: an array is",
        ),
        (("--nodes", "2"), ("missing.sh",), "Slurm does not take the job: .*missing.sh"),
    ],
)
def test_jobs_that_cannot_run(say, slurm, options, words, sentence):
    code, said = say("sbatch", *words, "{out}", options=options)
    assert re.search(sentence, " ".join(said.split())), said
    assert (code, slurm.queued()) == (ExitCode.USAGE, [])


def test_a_partition_is_for_slurm_alone(tmp_path):
    words = [sys.executable, "-m", "chaoskit", "run", "--partition", "x", "--", sys.executable, "-c", "", "{out}"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "--partition is for --env slurm, not for 'local': choose --env slurm, or leave" in done.stderr
    assert done.returncode == ExitCode.USAGE


def test_a_job_that_does_not_start(slurm, tmp_path, monkeypatch, until):
    monkeypatch.setattr(batch_job, "START_LIMIT", 4.0)
    (tmp_path / "out").mkdir()
    (tmp_path / "events").mkdir()
    other = slurm.command(
        "sbatch", "--parsable", "-N4", "--exclusive", "-o/dev/null", "--wrap", "sleep 999"
    ).strip()
    spec = RunSpec(tmp_path, tmp_path / "out", tmp_path, "does-not-start")
    try:
        with SlurmEnvironment(spec) as env:
            with pytest.raises(
                ChaoskitError, match=r"has not started within 4 s: Slurm says (Resources|Priority)"
            ):
                env.launch(0, ["true"])
            assert slurm.queued() == [other]
            # What no word and no script tells: a variable of sbatch makes it an array.
            monkeypatch.setenv("SBATCH_ARRAY_INX", "0-1")
            with pytest.raises(UsageError, match="it is an array of jobs"):
                env.launch(0, ["true"])
            assert slurm.queued() == [other]
    finally:
        slurm.command("scancel", other)
        until(lambda: slurm.queued() == [], timeout=60)
