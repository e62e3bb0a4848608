"""Experiments of the battery in containers, as a user runs them, on the bundled trainer, which survives everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
JOB = "torchrun --nproc-per-node {ranks} -m tinymodels.train --model mlp --timeout 20 --out {{out}}"

pytestmark = pytest.mark.slow


def experiments(store, image, expression, *flags, ranks=0, job=JOB, code=0):
    """pytest on these experiments: what it printed. They run in an image that has neither chaoskit nor the trainer.
    Without a number of `ranks` the job is the experiments' own."""
    result = subprocess.run(
        [
            sys.executable, "-m", "pytest", "experiments", "-q", "-p", "no:cacheprovider", "--chaos-env", "docker",
            "--chaos-image", image, "--chaos-mount", f"{REPOSITORY}:/repository:ro", "--chaos-require",
            "--chaos-dir", str(store.root), "-k", expression, *flags,
            *(["--chaos-job", job.format(ranks=ranks)] if ranks else []),
        ],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = result.stdout + result.stderr
    assert result.returncode == code, said
    return said


def test_one_container(shared_store, image):
    said = experiments(shared_store, image, "one_rank_mid_epoch or test_transient_error", ranks=2)
    assert "2 passed" in said


def test_two_containers(shared_store, image):
    chosen = "test_worker_node or test_frozen_node or test_one_way or (test_ridden_out and delay)"
    said = experiments(shared_store, image, chosen, "--chaos-nodes", "2", ranks=1)
    assert "4 passed" in said


def test_an_elastic_job_loses_a_container_and_gets_another(shared_store, image):
    said = experiments(shared_store, image, "test_shrink_and_grow", "--chaos-nodes", "1:2")
    assert "1 passed" in said


def test_notices_of_preemption(shared_store, image):
    """A cloud in the network of the containers, and a signal. SIGTERM is never a false notice: that one is skipped."""
    flags = ("--chaos-nodes", "2", "--chaos-notices", "aws,signal")
    said = experiments(shared_store, image, "test_preempted or test_false_notice", *flags)
    assert "3 passed" in said and "1 skipped" in said


def test_a_handler_that_asks_without_a_token_is_caught(shared_store, image):
    job = JOB.replace("tinymodels.train", "tinymodels.gallery.notice_imdsv1") + " --notice aws --step-delay 0.2"
    flags = ("--chaos-nodes", "2", "--chaos-notices", "aws")
    said = experiments(shared_store, image, "test_preempted", *flags, ranks=1, job=job, code=1)
    assert "notice-ignored" in said and "refused all" in said
