"""A job of a real Slurm reaches its time limit: what Slurm sends, when, and how the job has ended."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanLimitTime
from chaoskit.environments.environment import Ended
from chaoskit.environments.slurm.environment import SlurmEnvironment
from chaoskit.environments.slurm.orders import order
from chaoskit.environments.slurm.queued_job import read_minutes
from chaoskit.environments.slurm.slurm_error import SlurmError
from chaoskit.nodes import Nodes
from tests.environments.slurm.test_job_notices import RANK
from tests.environments.slurm.test_room import JOB

pytestmark = [pytest.mark.launches, pytest.mark.slow]  # Slurm looks at limits every 30 s

#: Slurm's signal comes to all steps, and the ranks stay until they are killed.
STAYS = '#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --time=20 --signal=USR1@60\nsrun "$@"\n'
#: It comes to the script alone, which has Slurm start the job again.
REQUEUES = """\
#!/bin/bash
#SBATCH --nodes=1 --time=20 --signal=B:USR1@60 --requeue
trap 'scontrol requeue "$SLURM_JOB_ID"; exit 0' USR1
srun "$@" &
wait
"""
#: A minute, Slurm's period, and KillWait of the cluster; on a busy machine.
LONGEST = 150.0


@pytest.fixture
def begin(slurm, place, python, until):
    """The environment, with a job of this script that runs."""
    made = []

    def enter(script, nodes):
        (place.cwd / "job.sh").write_text(script)
        env = SlurmEnvironment(replace(place, nodes=Nodes(nodes, nodes), gated=False)).__enter__()
        made.append(env)
        env.command = ["sbatch", "job.sh", *python(RANK)]
        env.launch(0, env.command)
        log = place.run_dir / "logs" / "launch-0.log"
        until(lambda: log.read_text().count("up") == nodes, timeout=60)
        return env

    yield enter
    for each in made:
        each.__exit__(None, None, None)
    assert slurm.queued() == []


def over(env):
    """What became of the job, and how its launch has ended."""
    deadline, end, found = time.monotonic() + LONGEST, None, None
    while found is None or end is None:
        assert time.monotonic() < deadline
        end = next((event for event in env.wait(0.1) if isinstance(event, Ended)), end)
        found = env.time_limit_reached()
    return found, end


def test_the_capability():
    assert issubclass(SlurmEnvironment, CanLimitTime)
    assert order("limit", JOB, run="r1", minutes=3) == ["scontrol", "update", "JobId=7", "TimeLimit=3"]


def test_times_of_squeue():
    found = [read_minutes(text) for text in ("0:30", "12:00", "1:02:00", "2-01:00:00 ", "UNLIMITED")]
    assert found == [0.5, 12, 62, 2 * 1440 + 60, float("inf")]
    with pytest.raises(SlurmError, match="and not a time"):
        read_minutes("INVALID")


def test_slurm_tells_the_steps_and_kills_what_stays(begin, place):
    env = begin(STAYS, 2)
    evidence = env.limit_time(1)
    assert evidence["nodes"] == list(env.nodes()) and evidence["grace"] == 60 + 5
    assert evidence["signal"] == "USR1"
    assert env.time_limit_reached() is None
    begun = time.monotonic()
    found, end = over(env)
    assert found["state"] == "TIMEOUT" and not found["requeued"]
    assert "in state TIMEOUT: it has reached its time limit" in end.why and end.code != 0
    assert set(found["nodes"]) == set(evidence["nodes"]) and begun <= found["since"] + 1
    for told in found["nodes"].values():
        assert told["received"][0]["signal"] == signal.SIGUSR1 and told["received"][0]["after"] < 5
        assert told["ended"] is None and told["killed"] > told["shutdown"] + 3 > 3
    print(found)
    lines = (place.run_dir / "logs" / "launch-0.log").read_text().splitlines()
    for node in evidence["nodes"]:
        assert f"{node} 10" in lines and f"{node} 15" in lines
    json.dumps(found)


def test_a_script_that_requeues_its_job(begin):
    env = begin(REQUEUES, 1)
    evidence = env.limit_time(1)
    found, end = over(env)
    assert found["requeued"] and found["state"] != "TIMEOUT"
    (told,) = found["nodes"].values()
    assert told["received"][0]["signal"] == signal.SIGUSR1 and told["killed"] is None and told["ended"] > 0
    assert end.requeued and f"job {evidence['job']} is back in the queue" in end.why
    env.launch(1, env.command)
    assert env.job.run.launch.job.number == evidence["job"]
    with pytest.raises(LookupError, match="time limit of"):
        env.limit_time(60)


def test_a_job_that_ends_before_its_limit(begin):
    env = begin(STAYS, 2)
    env.limit_time(1)
    env.lose_node(env.nodes()[0])
    with pytest.raises(LookupError, match="before Slurm told it anything"):
        over(env)
