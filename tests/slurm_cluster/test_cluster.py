"""The test cluster is a real Slurm: what the tests of the environment rest on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.slurm_cluster.cluster import PARTITION, URGENT, SlurmCluster, processes_of

pytestmark = pytest.mark.launches


@pytest.fixture
def job(slurm, tmp_path):
    """Submits a script of the shell; returns the number of the job. Its output is in `tmp_path`/NUMBER.log."""
    made = []

    def submit(script: str, *options: str) -> str:
        (tmp_path / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
        said = slurm.command(
            "sbatch", "--parsable", f"--output={tmp_path}/%j.log", "--open-mode=append", *options,
            str(tmp_path / "job.sh"), check=True,
        )  # fmt: skip
        made.append(said.strip())
        return made[-1]

    yield submit
    for number in made:
        slurm.command("scancel", number)
    wait(lambda: not slurm.queued())


def wait(holds, limit=60.0):
    deadline = time.monotonic() + limit
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def log(tmp_path: Path, number: str) -> str:
    path = tmp_path / f"{number}.log"
    return path.read_text() if path.exists() else ""


def test_each_node_has_its_name_and_sees_its_own_processes_alone(slurm, job, tmp_path):
    number = job("srun sh -c 'echo $SLURMD_NODENAME $(hostname) $(ls /proc | grep -c \"^[0-9]\")'", "-N4")
    wait(lambda: not slurm.queued())
    lines = [line.split() for line in log(tmp_path, number).splitlines()]
    assert sorted(line[:2] for line in lines) == [[node, node] for node in slurm.nodes]
    assert all(int(line[2]) < len(list(Path("/proc").glob("[0-9]*"))) for line in lines)


def test_a_job_is_requeued(slurm, job, tmp_path):
    number = job('echo begins ${SLURM_RESTART_COUNT:-0}; test -n "$SLURM_RESTART_COUNT" || sleep 60', "--requeue")
    wait(lambda: "begins 0" in log(tmp_path, number))
    slurm.command("scontrol", "requeue", number, check=True)
    wait(lambda: "begins 1" in log(tmp_path, number))


@pytest.mark.slow
def test_a_job_of_the_urgent_partition_preempts_with_a_grace(slurm, job, tmp_path):
    number = job("trap 'echo told' TERM; echo begins; for i in $(seq 300); do sleep 0.2; done", "-N4", "--exclusive",
                 "--requeue", "--signal=B:USR2@1")  # fmt: skip
    wait(lambda: "begins" in log(tmp_path, number))
    job("true", f"--partition={URGENT}", "-N4", "--exclusive")
    wait(lambda: log(tmp_path, number).count("begins") == 2)
    assert slurm.command("squeue", "-h", "-j", number, "-O", "Partition:|,RestartCnt:").strip() == f"{PARTITION}|1"


def test_nothing_is_left_of_a_cluster(slurm, tmp_path):
    with SlurmCluster(tmp_path / "other", nodes=1) as other:
        number = other.command("sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 1000").strip()
        wait(lambda: "RUNNING" in other.command("squeue", "-h", "-j", number, "-o", "%T"))
        assert processes_of(other)
        # Two clusters do not know each other.
        assert number not in slurm.queued() or other.conf != slurm.conf
    assert wait(lambda: processes_of(other) == [])
    assert os.environ["SLURM_CONF"] == str(slurm.conf)


def test_a_node_is_lost_and_comes_back(tmp_path):
    with SlurmCluster(tmp_path / "own", nodes=2) as own:
        own.kill_node("cn1")
        own.start_node("cn1")
        wait(
            lambda: (
                own.command("sinfo", "-h", "-N", "-t", "idle", "-p", PARTITION, "-o", "%N").split() == own.nodes
            )
        )
