"""Jobs of a real Slurm as launches: gates, signals, ends, and what is left."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from chaoskit.capabilities import CanNameNodes, CanShowActivity, CanSignal, CanTouchFiles
from chaoskit.environments import environment
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.machine import processes
from chaoskit.environments.slurm.environment import SlurmEnvironment
from chaoskit.nodes import Nodes
from tests.environments import events

pytestmark = pytest.mark.launches

STUB = str(Path(__file__).parents[1] / "stub_rank.py")
#: Slurm takes its time to start a job.
news = partial(events.news, timeout=90.0)


def rank(number, steps):
    """The command of a process that stands in for a rank."""
    # The stand-in has no probe, which finds its node by itself.
    code = (
        "import os, runpy, sys; os.environ['CHAOSKIT_NODE'] = os.environ['SLURMD_NODENAME']; "
        f"sys.argv = ['stub', '{number}', '{steps}']; runpy.run_path({STUB!r}, run_name='__main__')"
    )
    return [sys.executable, "-I", "-S", "-c", code]


def test_the_registry():
    assert environment("slurm") is SlurmEnvironment
    for can in (CanSignal, CanShowActivity, CanTouchFiles, CanNameNodes):
        assert issubclass(SlurmEnvironment, can)


def test_a_run_from_gate_to_gate_with_signals(slurm, place, until):
    with SlurmEnvironment(place) as env:
        assert env.launch(0, rank(1, 2)) == "cold"
        (node,) = env.nodes()
        for n in range(2):
            arrived = news(env, Arrived)
            process = env.rank_process(1)
            assert arrived == Arrived(1, 0, 0, process.pid, "step", n, 1, {"n": n + 1})
            # What Slurm has started there last is what the step runs.
            assert list(env.launcher_processes()) == [process]
            assert f".{node}/" in process.key and env.ranks_of(node) == (1,)
            env.release(1, keep_gating=True)
        assert news(env, Ended) == Ended(0, 0)
        with pytest.raises(LookupError):
            env.rank_process(1)
        assert (place.run_dir / "logs" / "launch-0.log").read_text() == "done\n"
        assert slurm.queued() == []

        env.launch(1, rank(0, 3))
        news(env, Arrived)
        process = env.rank_process(0)
        assert env.signal(process, signal.SIGSTOP)
        until(lambda: env.state(process) == "stopped", timeout=60)
        assert env.stacks() == {0: "stopped (SIGSTOP)"}
        assert list(env.activity().ranks) == [0]
        assert env.signal(process, signal.SIGKILL)
        # srun ends with 128 and the signal, and so does the script.
        assert news(env, Ended) == Ended(1, 137)
        assert env.state(process) == "gone" and env.delivered(process, signal.SIGKILL)
        assert not env.signal(process, signal.SIGKILL)

        env.launch(2, rank(0, 3))
        news(env, Arrived)
        env.order(0, {"do": "exit", "code": 7})
        env.release(0, keep_gating=True)
        assert news(env, Ended) == Ended(2, 7)


def test_two_nodes_and_a_batch_script_of_the_team(slurm, place, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1\n#SBATCH --output=/nowhere/%j\n"
        'echo "given $1"\nsrun bash -c \'exec "$@" "$SLURM_PROCID" 1\' -- "${@:2}"\n'
    )
    words = rank("$", 1)
    words[-1] = words[-1].replace("'$', '1'", "*sys.argv[1:]")
    with SlurmEnvironment(replace(place, nodes=Nodes(2, 2))) as env:
        env.launch(0, ["sbatch", "--job-name=theirs", str(script), "a word", *words])
        arrived = set()
        while len(arrived) < 2:  # both may come with one answer
            arrived |= {each.rank for each in env.wait(60) if isinstance(each, Arrived)}
        assert arrived == {0, 1} and len(env.nodes()) == 2
        assert {env.ranks_of(node) for node in env.nodes()} == {(0,), (1,)}
        for each in arrived:
            env.release(each, keep_gating=True)
        assert news(env, Ended) == Ended(0, 0)
    lines = (place.run_dir / "logs" / "launch-0.log").read_text().splitlines()
    assert sorted(lines) == ["done", "done", "given a word"]


def test_a_job_that_does_not_end_is_ended_with_the_run(slurm, place, python, running):
    with SlurmEnvironment(place) as env:
        env.launch(0, python("import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(1000)"))
        assert running()
    assert slurm.queued() == []


def test_nothing_outlives_a_job(slurm, place, python, until):
    # As a rank of torchrun, whose launcher was killed.
    code = (
        "import os, subprocess, time; "
        "subprocess.Popen(['sh', '-c', 'sleep 1000; true'], start_new_session=True, stdout=-3, stderr=-3); "
        "time.sleep(1); os.kill(os.getpid(), 9)"
    )
    with SlurmEnvironment(place) as env:
        env.launch(0, python(code))
        assert news(env, Ended).code != 0
        until(lambda: processes.marked(place.run_id) == [], timeout=5)


def test_stop_says_what_it_has_killed(slurm, place):
    with SlurmEnvironment(place) as env:
        env.launch(0, rank(0, 9))
        news(env, Arrived)
        pid = env.rank_process(0).pid
        assert pid in {each["pid"] for each in env.stop()}
        assert news(env, Ended).code != 0
        assert slurm.queued() == []
