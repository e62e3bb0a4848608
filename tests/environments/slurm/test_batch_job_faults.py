"""What is done to jobs of a real Slurm: nodes are lost and frozen, and the job goes back into the queue."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanLoseNodes, CanSuspend
from chaoskit.environments.environment import Ended
from chaoskit.environments.slurm.environment import SlurmEnvironment
from chaoskit.nodes import Nodes
from tests.slurm_cluster.cluster import PARTITION, URGENT

pytestmark = pytest.mark.launches


@pytest.fixture
def lines(place):
    """What the processes of a launch have told."""

    def read(launch):
        return sorted((place.run_dir / "logs" / f"launch-{launch}.log").read_text().splitlines())

    return read


def ended(env, timeout=90.0):
    """How the launch has ended."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        for event in env.wait(1):
            if isinstance(event, Ended):
                return event
    raise AssertionError("it does not end")


def test_the_capabilities():
    assert issubclass(SlurmEnvironment, CanLoseNodes) and issubclass(SlurmEnvironment, CanSuspend)


def test_a_job_goes_back_into_the_queue_and_is_the_next_launch(slurm, place, tell, lines, until):
    with SlurmEnvironment(place) as env:
        env.launch(0, tell)
        (node,) = env.nodes()
        until(lambda: lines(0) == [f"{node} 0"], timeout=60)
        evidence = env.suspend()
        assert (evidence["nodes"], evidence["restarts"]) == ([node], 0)
        assert ended(env).code < 0
        assert env.is_suspended() and env.nodes() == ()
        # It is held: nothing starts before somebody says so.
        held = slurm.command("squeue", "-h", "-O", "JobID:|,State:|,RestartCnt:|,Reason:").strip().split("|")
        assert held[:3] == [str(evidence["job"]), "PENDING", "1"] and "held" in held[3].lower()
        env.resume()
        env.launch(1, tell)
        (node,) = env.nodes()
        until(lambda: lines(1) == [f"{node} 1"], timeout=60)
        assert slurm.queued() == [str(evidence["job"])]
        json.dumps(evidence)


def test_a_job_that_may_not_be_requeued(slurm, place, tell, until, tmp_path):
    (tmp_path / "job.sh").write_text('#!/bin/sh\n#SBATCH --no-requeue\n"$@"\n')
    with SlurmEnvironment(place) as env:
        env.launch(0, ["sbatch", str(tmp_path / "job.sh"), *tell])
        with pytest.raises(LookupError, match="a job that is submitted with --requeue can be put back"):
            env.suspend()
        assert not env.is_suspended()


@pytest.mark.slow
@pytest.mark.parametrize("stays", [False, True])
def test_a_job_of_another_partition_preempts_it_and_ends(slurm, place, tell, lines, until, stays):
    # One that ends by itself after SIGTERM is not put back into the queue: the next launch is a job of its own.
    code = f"import signal; signal.signal(15, signal.SIG_IGN); {tell[-1]}" if stays else tell[-1]
    with SlurmEnvironment(place) as env:
        env.launch(0, [*tell[:-1], code])
        until(lambda: lines(0), timeout=60)
        assert not env.is_suspended()
        evidence = env.suspend(URGENT)
        assert ended(env).code == (-15 if stays else 143)
        assert env.is_suspended()
        other = [str(evidence["preempted_by"]), URGENT]
        until(lambda: slurm.command("squeue", "-h", "-t", "running", "-o", "%i %P").split() == other, timeout=60)
        env.resume()
        env.launch(1, tell)
        until(lambda: lines(1), timeout=60)
        assert lines(1)[0].endswith(" 1")
        assert slurm.queued() == [str(evidence["job"] if stays else evidence["preempted_by"] + 1)]


def test_a_partition_that_preempts_nobody(slurm, place, tell):
    with SlurmEnvironment(place) as env:
        env.launch(0, tell)
        with pytest.raises(LookupError, match=r"Slurm does not take the job: .*nvalid partition"):
            env.suspend("nowhere")
        # This Slurm has no accounting, and takes jobs of any QOS.
        with pytest.raises(LookupError, match="without its QOS 'high': QOS need accounting"):
            env.suspend(qos="high")
        env.suspend(PARTITION)
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            assert not any(isinstance(event, Ended) for event in env.wait(1))
        assert not env.is_suspended() and len(slurm.queued()) == 2
    assert slurm.queued() == []


def test_a_held_job_does_not_outlive_its_run(slurm, place, tell):
    with SlurmEnvironment(place) as env:
        env.launch(0, tell)
        env.suspend()
        ended(env)
    assert slurm.queued() == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_node_is_frozen_and_lost(slurm, place, tell, lines, until, replaced):
    with SlurmEnvironment(replace(place, nodes=Nodes(3, 3))) as env:
        env.launch(0, tell)
        first, second, third = env.nodes()
        until(lambda: lines(0) == [f"{node} 0" for node in (first, second, third)], timeout=60)
        pids = env.freeze_node(second)["pids"]
        until(lambda: env.is_frozen(second))
        assert pids and not env.is_frozen(first)
        env.thaw_node(second)
        until(lambda: not env.is_frozen(second))
        assert not env.is_lost(second)
        assert env.lose_node(second, replaced=replaced)["ended"] == pids
        assert env.is_lost(second) and not env.is_lost(first)
        assert ended(env).code > 128  # srun ends the other task, too, and tells the signal of either
        with pytest.raises(LookupError, match="is not up"):
            env.lose_node(first)
        env.launch(1, tell)
        assert len(env.nodes()) == 3
        if replaced:
            assert set(env.nodes()) == {*slurm.nodes} - {second}
        assert env.is_lost(second)
