"""`chaoskit run --env slurm` as a user types it: the batch script of a team, unedited, on two nodes of a real Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.errors import ExitCode
from tests.users import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.launches]

#: A rank is killed; the whole job goes back into the queue.
PASSED = ("test_one_rank_mid_epoch", "test_suspended")
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=train --nodes=2 --ntasks-per-node=1
#SBATCH --output=train-%j.log --time=30
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d \\
    --rdzv-endpoint "$head:29512" --rdzv-id "$SLURM_JOB_ID" -m "$1" --out "$2"
"""


@pytest.fixture
def run(slurm, tmp_path):
    """Runs experiments on two nodes; returns the exit code, what was said, and the results by name."""

    def experiments(chosen, *command, options=("--nodes", "2")):
        answer = tmp_path / "found.json"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        words = [
            sys.executable, "-m", "chaoskit", "run", "--env", "slurm", "-k", chosen, "-n", "1", "--no-proof",
            "--json", str(answer), *options, "--", *command,
        ]  # fmt: skip
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)},
        )  # fmt: skip
        assert slurm.queued() == []
        found = json.loads(answer.read_text())["experiments"] if answer.exists() else []
        return done.returncode, done.stdout + done.stderr, {each["name"]: each for each in found}

    (tmp_path / "job.sh").write_text(SCRIPT)
    return experiments


def test_a_good_trainer_passes_with_the_batch_script_of_a_team(run, tmp_path):
    code, said, found = run("one_rank_mid_epoch or suspended", "sbatch", "job.sh", "tinymodels.train", "{out}")
    assert {name: each["verdict"] for name, each in found.items()} == dict.fromkeys(PASSED, "pass"), said
    assert code == ExitCode.PASS and (tmp_path / "job.sh").read_text() == SCRIPT
    assert not list(tmp_path.glob("train-*.log"))


def test_slurm_gives_notice_and_other_notices_are_skipped(run, tmp_path):
    # torchrun has no handler for USR1, which Slurm sends to all processes of a step.
    script = SCRIPT.replace("torchrun", "sh -c 'trap \"\" USR1; exec torchrun \"$@\"' sh")
    (tmp_path / "job.sh").write_text(script.replace('"$2"', '"$2" --notice usr1 --step-delay 0.2 --timeout 4'))
    chosen = "test_preempted or all_preempted or told_again or false_notice"
    code, said, found = run(
        chosen, "sbatch", "job.sh", "tinymodels.train", "{out}", options=("--nodes", "2", "--notices", "slurm,aws")
    )
    names = ("test_preempted", "test_all_preempted", "test_told_again", "test_false_notice")
    for cloud, verdict in (("slurm", "pass"), ("aws", "skipped")):
        assert {name: found[f"{name}[{cloud}]"]["verdict"] for name in names} == dict.fromkeys(names, verdict), said
    why = "on a real cluster, the address of that service belongs to its cloud"
    assert why in json.dumps(found["test_preempted[aws]"])
    assert code == ExitCode.PASS


def test_a_broken_trainer_is_caught_and_named_in_an_allocation_of_ours(run):
    command = ["torchrun", "--nproc-per-node", "1", "-m", "tinymodels.gallery.rng_missing", "--out", "{out}"]
    code, said, found = run("one_rank_mid_epoch", *command)
    assert "rng-not-restored" in json.dumps(found["test_one_rank_mid_epoch"]), said
    assert code == ExitCode.FAIL
