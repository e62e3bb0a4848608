"""The polling daemon of the guides, on two virtual hosts: it makes of a notice what the page of frameworks says."""

import sys
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.engine.runner import Runner

REPOSITORY = Path(__file__).resolve().parents[3]
PLACE = "examples/handlers/polling_daemon"


@pytest.mark.parametrize(
    ("trainer", "codes"),
    [
        pytest.param("train.py", {"no-emergency-checkpoint", "hang"}, marks=pytest.mark.slow),
        pytest.param("agreed.py", set(), marks=pytest.mark.exhaustive),  # in CI: test_preempted_on_schedule.py
    ],
)
def test_the_daemon_of_one_node_finds_the_notice(shared_store, hosts_here, monkeypatch, trainer, codes):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    words = ["sh", f"{PLACE}/job.sh", f"{PLACE}/{trainer}", "{out}", "/dev/shm/emergency_checkpoint", "0.25"]
    job = Job.from_command(words, nnodes=2, cwd=str(REPOSITORY))
    notice = faults.preempt(cloud="aws", node=-1, scale=0.04).at_step(25)
    run = Runner(shared_store, environment="netns").run(job, notice)
    run.judge(checks.completed(), checks.emergency_checkpoint(), checks.stopped_cleanly())
    assert {code for verdict in run.verdicts for code in verdict.codes} == codes
    (emergency,) = run.case.emergencies
    assert emergency.was_received and emergency.facts()["refused"] == 0
    assert (emergency.settled is None) == bool(codes)
