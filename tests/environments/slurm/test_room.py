"""What of the room needs no Slurm: comments, the output of squeue, the commands, and who may name a job."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.environments import slurm
from chaoskit.environments.launch.launcher import LaunchEnd
from chaoskit.environments.machine import owner, processes
from chaoskit.environments.slurm import batch_launch
from chaoskit.environments.slurm.batch_launch import BatchLaunch
from chaoskit.environments.slurm.node_agent import NodeAgent
from chaoskit.environments.slurm.orders import order
from chaoskit.environments.slurm.queued_job import QueuedJob, read_jobs
from chaoskit.environments.slurm.run_mark import RunMark
from chaoskit.environments.slurm.slurm_error import ForeignJob, SlurmError
from chaoskit.environments.slurm.submission import must_suit, outside, rendezvous, submission
from chaoskit.errors import UsageError
from chaoskit.nodes import Nodes
from chaoskit.protocol import scheduled

ROOM = Path(slurm.__file__).parent
MARK = RunMark.of_run("r1")
JOB = QueuedJob(7, "N/A", "RUNNING", "None", 0, 2, "cn[0-1]", 0, str(MARK))


def test_a_comment_says_whose_job_it_is():
    assert RunMark.read(str(MARK)) == MARK and not MARK.is_abandoned
    assert replace(MARK, pid=2**22, start=1).is_abandoned
    # Of another machine nobody knows here.
    assert not replace(MARK, host="elsewhere", pid=2**22).is_abandoned
    for other in (
        "",
        "chaoskit",
        f"{MARK} and more",
        f"not {MARK}",
        "chaoskit run=../x host=h boot= pid=1 start=1",
    ):
        assert RunMark.read(other) is None
    assert owner.current()["pid"] == MARK.pid


@pytest.mark.parametrize(
    "comment",
    ["", "nightly", "chaoskit", str(replace(MARK, run="r2")), f"{MARK} r1"],
    ids=["none", "of a team", "without a run", "of another run", "longer"],
)
@pytest.mark.parametrize("what", ["cancel", "write to", "attach", "signal", "signal script", "limit"])
def test_nothing_is_ordered_for_a_job_of_somebody_else(what, comment):
    assert order(what, JOB, run="r1", path=Path("/x"))
    with pytest.raises(ForeignJob, match="job 7 of Slurm does not belong to run r1"):
        order(what, replace(JOB, comment=comment), run="r1", path=Path("/x"))


def test_one_module_alone_makes_commands_about_a_job():
    for path in ROOM.glob("*.py"):
        if path.name != "orders.py":
            assert not re.search(r"scancel\"|\"requeue\"|\"update\"|--jobid", path.read_text()), path


def test_the_output_of_squeue():
    line = f"7|N/A|RUNNING|None|2|4|cn[0-3]|0|N/A|{MARK}"
    (found,) = read_jobs(line + "\n\n")
    assert (found.number, found.restarts, found.nodes, found.mark) == (7, 2, 4, MARK)
    # The comment of somebody else may hold anything.
    assert read_jobs("8|3|PENDING|Priority|0|1||0|N/A|a|b")[0].comment == "a|b"
    assert read_jobs("8|3|PENDING|Priority|0|1||0|2026-11-25T13:58:20|a")[0].is_array and not found.is_array
    assert (
        read_jobs("8|3|PENDING|Priority|0|1||0|2026-11-25T13:58:20|a")[0].is_preempted and not found.is_preempted
    )
    codes = {"COMPLETED|None|0|1|n|0": 0, "FAILED|x|0|1|n|256": 1, "FAILED|x|0|1|n|9": -9, "FAILED|x|0|1|n|3:0": 3,
             "TIMEOUT|x|0|1|n|0": -15, "CANCELLED|x|0|1|n|0": -15, "NODE_FAIL|x|0|1|n|0": -9}  # fmt: skip
    for text, code in codes.items():
        (found,) = read_jobs(f"7|N/A|{text}|N/A|")
        assert (found.code, found.has_ended) == (code, True)


@pytest.mark.parametrize("line", ["7", "JOBID PARTITION NAME USER ST", "7|N/A|RUNNING|None|many|4|n|0|N/A|", "{}"])
def test_the_output_of_another_version(line):
    with pytest.raises(SlurmError, match=r"chaoskit knows the output of Slurm 22\.05") as error:
        read_jobs(line)
    assert error.value.said == line


def test_the_batch_command_of_a_team_gets_options_and_stays_as_it_is(tmp_path):
    theirs = ["sbatch", "-N", "2", "job.sh", "--comment", "{out}"]
    with pytest.raises(UsageError):
        must_suit(theirs, tmp_path)  # one cannot know that it is meant for the script
    theirs.remove("--comment")
    must_suit(theirs, tmp_path)
    words = submission(
        theirs,
        mark=MARK,
        log=tmp_path / "log",
        partition="chaos",
        nodes=Nodes(2, 2),
        script=tmp_path / "x",
    )
    assert words[0] == "sbatch" and words[-4:] == theirs[1:] and f"--comment={MARK}" in words
    assert "--partition=chaos" in words and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "option", ["--comment=x", "--comm=x", "--export=NONE", "-o", "-ox", "--output", "--array=1-3", "-a1-3", "--wait",
               "-W", "--hold", "-H", "--parsable", "--test-only"]
)  # fmt: skip
def test_options_that_the_environment_needs_are_refused(option, tmp_path):
    with pytest.raises(UsageError, match=f"{option}: leave it out of the sbatch command: "):
        must_suit(["sbatch", option, "job.sh"], tmp_path)


@pytest.mark.parametrize("line", ["--array=1-3", "-a 1-3", "-N 2 --hold"])
def test_so_are_they_in_a_script(line, tmp_path):
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n#SBATCH {line}\ntrue\n")
    with pytest.raises(UsageError, match=r"job\.sh: .#SBATCH .*. cannot be used here: "):
        must_suit(["sbatch", "job.sh"], tmp_path)
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH -N 2 --output=x --comment=y -A us\ntrue\n")
    must_suit(["sbatch", "job.sh"], tmp_path)


def test_another_command_gets_an_allocation(tmp_path):
    def words(*command):
        return submission(
            command,
            mark=MARK,
            log=tmp_path / "log",
            partition="",
            nodes=Nodes(2, 2),
            script=tmp_path / "x",
        )

    found = words("torchrun", "train.py")
    assert "--nodes=2" in found and found[found.index(str(tmp_path / "x")) + 1 :][0] == "srun"
    assert found[-2:] == ["torchrun", "train.py"] and '"$@"' in (tmp_path / "x").read_text()
    assert words("srun", "-n", "4", "x")[-5:] == [str(tmp_path / "x"), "srun", "-n", "4", "x"]
    assert rendezvous(Nodes(2, 2), "r1")["PET_NNODES"] == "2" and rendezvous(Nodes(), "r1") == {}


class Silent:
    """A Slurm whose controller does not answer, for as long as it has `errors`, and then shows `job`; and no nodes."""

    def __init__(self, errors, job):
        self.errors, self._job = errors, job

    def job(self, number):
        self.errors -= 1
        if self.errors >= 0:
            raise SlurmError("squeue failed", program="squeue")
        return self._job

    def let_go(self):
        pass


@pytest.mark.parametrize("state", ["TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "CANCELLED"])
def test_why_slurm_has_ended_a_job(monkeypatch, state):
    slurm = Silent(0, replace(JOB, state=state, exit_status=9))
    launch = BatchLaunch(slurm, JOB, slurm, run="r1")
    end = launch.ended()
    assert end is not None and not end.requeued and f"job 7, in state {state}: " in end.why
    assert state != "TIMEOUT" or "--time" in end.why
    launch.close()
    assert replace(JOB, state="FAILED").why == replace(JOB, state="COMPLETED").why == JOB.why == ""


def test_a_job_that_is_back_in_the_queue():
    slurm = Silent(0, replace(JOB, state="PENDING", restarts=1))
    launch = BatchLaunch(slurm, JOB, slurm, run="r1")
    assert launch.ended() == LaunchEnd(-15, why="job 7 is back in the queue of Slurm", requeued=True)
    assert launch.was_requeued
    launch.close()


def test_a_controller_that_is_started_again(monkeypatch):
    over = replace(JOB, state="FAILED", exit_status=256)
    monkeypatch.setattr(batch_launch, "LOOK", 0.0)
    slurm = Silent(3, over)
    launch = BatchLaunch(slurm, JOB, slurm, run="r1")
    assert [launch.ended() for _ in range(3)] == [None] * 3
    assert launch.ended() == LaunchEnd(1)
    launch.close()
    monkeypatch.setattr(batch_launch, "OUTAGE", -1.0)
    slurm.errors = 1
    launch = BatchLaunch(slurm, JOB, slurm, run="r1")
    with pytest.raises(SlurmError):
        launch.ended()
    launch.ended()
    launch.close()


def test_what_is_left_in_a_session_of_its_own_is_ended(until):
    run_id = f"orphans-{os.getpid()}"
    subprocess.run(["sh", "-c", "setsid sleep 50 & sleep 50 &"], env={**os.environ, "CHAOSKIT_ID": run_id}, check=True)

    def apart():
        return {each.pid: os.getsid(each.pid) == each.pid for each in processes.marked(run_id)}

    try:
        until(lambda: sorted(apart().values()) == [False, True])
        assert len(NodeAgent.end_orphans(None, run_id)) == 1
        # As an srun whose batch script has ended: its step may still save.
        until(lambda: list(apart().values()) == [False])
    finally:
        processes.end_marked(run_id)


def test_a_harness_in_an_allocation_of_its_own():
    own = {
        "SLURM_JOB_ID": "3",
        "SLURM_NTASKS": "9",
        "SLURMD_NODENAME": "cn9",
        "SLURM_CONF": "/x",
        "SBATCH_ACCOUNT": "us",
    }
    assert outside(own) == {"SLURM_CONF": "/x", "SBATCH_ACCOUNT": "us"}
    wish = {"SLURM_CPU_BIND": "none", "PATH": "/bin"}
    assert outside(wish) == wish


def test_what_the_scheduler_says_of_a_process():
    told = scheduled.variables("WHERE", "AGAIN", first_launch=2)
    first, later = {**told, "WHERE": "cn0"}, {**told, "WHERE": "cn1", "AGAIN": "3"}
    scheduled.resolve(first)
    assert (first["CHAOSKIT_NODE"], first["CHAOSKIT_LAUNCH"]) == ("cn0", "2")
    # A child on another node inherits the variables, and twice is not once more.
    later |= {"CHAOSKIT_NODE": "cn0", "CHAOSKIT_LAUNCH": "2"}
    scheduled.resolve(later)
    scheduled.resolve(later)
    assert (later["CHAOSKIT_NODE"], later["CHAOSKIT_LAUNCH"]) == ("cn1", "5")
    other = {"CHAOSKIT_LAUNCH": "1"}
    scheduled.resolve(other)
    assert other == {"CHAOSKIT_LAUNCH": "1"}
