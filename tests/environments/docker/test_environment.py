"""Containers as nodes: launches, gates, signals, what is shown of processes, and what the container may not do."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace

import pytest

from chaoskit.capabilities import (
    CanCorruptNumbers,
    CanFailStorage,
    CanHideNames,
    CanLoseNodes,
    CanOrder,
    CanShowActivity,
    CanSignal,
    CanTouchFiles,
)
from chaoskit.environments import environment
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.launch.mode import Mode
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.nodes import Nodes
from tests.environments.docker.conftest import docker
from tests.environments.events import arrivals, news

pytestmark = pytest.mark.launches


def python(code):
    return ["python3", "-I", "-S", "-c", code]


def test_the_registry():
    kind = environment("docker")
    assert kind is DockerEnvironment
    for can in (
        CanSignal, CanShowActivity, CanOrder, CanCorruptNumbers, CanTouchFiles, CanLoseNodes, CanHideNames,
        CanFailStorage,
    ):  # fmt: skip
        assert issubclass(DockerEnvironment, can)


def test_a_run_from_gate_to_gate_with_faults(place, rank, until):
    with DockerEnvironment(place) as env:
        assert env.launch(0, rank(1, 2)) == "cold"
        for n in range(2):
            arrived = news(env, Arrived)
            process = env.rank_process(1)
            assert arrived == Arrived(1, 0, 0, process.pid, "step", n, 1, {"n": n + 1})
            assert list(env.launcher_processes()) == [process]
            # The reference names the container and the start time.
            container, start = process.key.split("/")
            assert env.containers.now["node0"].container.startswith(container) and int(start) > 0
            env.release(1, keep_gating=True)
        assert news(env, Ended) == Ended(0, 0)
        with pytest.raises(LookupError):
            env.rank_process(1)
        assert (place.run_dir / "logs" / "launch-0.log").read_text() == "done\n"

        before = env.containers.now["node0"].container
        env.launch(1, rank(0, 3))
        news(env, Arrived)
        process = env.rank_process(0)
        assert env.signal(process, signal.SIGSTOP)
        until(lambda: env.state(process) == "stopped")
        assert env.stacks() == {0: "stopped (SIGSTOP)"}
        used = env.activity()
        assert (list(used.ranks), used.others) == ([0], 0)
        assert env.signal(process, signal.SIGCONT)
        until(lambda: env.state(process) == "running")
        env.order(0, {"do": "exit", "code": 7})
        env.release(0, keep_gating=True)
        assert news(env, Ended) == Ended(1, 7)

        env.launch(2, rank(0, 3))
        news(env, Arrived)
        process = env.rank_process(0)
        assert env.signal(process, signal.SIGKILL)
        assert news(env, Ended) == Ended(2, -9)
        assert env.state(process) == "gone" and env.delivered(process, signal.SIGKILL)
        assert not env.signal(process, signal.SIGKILL)
        # Relaunches go into the running container.
        assert env.containers.now["node0"].container == before


def test_survivors_and_jobs_that_do_not_end(place, rank):
    code = (
        f"import os, subprocess, time; subprocess.Popen({rank(1, 9)!r}, env={{**os.environ, 'RANK': '1'}}, "
        "start_new_session=True); time.sleep(99)"
    )
    with DockerEnvironment(place) as env:
        env.launch(0, python(code))
        news(env, Arrived)
        pids = {env.rank_process(1).pid, env.launcher_processes()[0].pid}
        assert {each["pid"] for each in env.stop()} == pids
        assert news(env, Ended).code == -9
        env.launch(1, python("import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(1000)"))


def test_the_container_has_no_privilege_and_keeps_the_image_as_it_is(place):
    with DockerEnvironment(place) as env:
        about = json.loads(docker("inspect", env.containers.now["node0"].container))[0]
        env.launch(0, python("import os; print(sorted(os.environ), os.getcwd(), os.getuid())"))
        news(env, Ended)
    host = about["HostConfig"]
    assert (host["Privileged"], host["CapAdd"], host["Devices"], host["PidMode"]) == (False, None, None, "")
    assert host["NetworkMode"] not in ("host", "default", "bridge") and not host["SecurityOpt"]
    assert about["Config"]["User"] == ""
    assert [m["RW"] for m in about["Mounts"] if m["Destination"].startswith("/chaoskit")] in (
        [False],
        [False, False],
    )
    said = (place.run_dir / "logs" / "launch-0.log").read_text()
    assert "'PATH'" in said and "'TMPDIR'" not in said and "'PYTEST_CURRENT_TEST'" not in said
    assert said.strip().endswith("/ 0")


def test_a_command_that_is_not_there(place):
    with DockerEnvironment(place) as env, pytest.raises(UsageError, match="cannot start 'absent-program'"):
        env.launch(0, ["absent-program"])


def test_the_command_starts_where_its_directory_is_mounted(place, tmp_path):
    (tmp_path / "sub").mkdir()
    asked = replace(place, cwd=tmp_path / "sub", mounts=(f"{tmp_path}:/work",))
    with DockerEnvironment(asked) as env:
        env.launch(0, python("import os; print(os.getcwd())"))
        news(env, Ended)
    assert (place.run_dir / "logs" / "launch-0.log").read_text() == "/work/sub\n"


def test_lost_paused_and_replaced_containers(place, rank, until):
    nodes = Nodes(2, 2)
    with DockerEnvironment(replace(place, nodes=nodes)) as env:
        assert env.nodes() == ("node0", "node1")
        code = (
            "import os, sys; sys.argv[1] = os.environ['CHAOSKIT_NODE'][-1]; "
            "exec(open('/tests/environments/stub_rank.py').read())"
        )
        env.launch(0, [*python(code), "?", "9"])
        arrived = arrivals(env, 2)
        assert arrived == {0, 1} and env.ranks_of("node1") == (1,)
        one, other = env.rank_process(0), env.rank_process(1)
        assert one.key != other.key

        applied = env.freeze_node("node1")
        assert applied["pids"] == [other.pid] and env.is_frozen("node1") and not env.is_frozen("node0")
        assert (env.state(other), env.state(one)) == ("stopped", "running")
        assert env.stacks()[1] == "stopped (its node is paused)"
        with pytest.raises(LookupError, match="paused"):
            env.signal(other, signal.SIGTERM)
        env.thaw_node("node1")
        assert not env.is_frozen("node1") and env.state(other) == "running"

        assert env.resolves("node0", "node1") and env.resolves("node1", "node1")
        env.hide_names(["node0"])
        assert not env.resolves("node0", "node1") and env.resolves("node0", "node0")
        env.show_names(["node0"])
        assert env.resolves("node0", "node1")

        before = env.containers.now["node1"].container
        lost = env.lose_node("node1")
        assert lost["ended"] == [other.pid] and lost["isolated_by"] == "network disconnect"
        assert env.is_lost("node1") and env.state(other) == "gone" and env.state(one) == "running"
        # The policy of the job brings it back, and asks the agent of the other node to end.
        assert news(env, Ended).code != 0
        env.launch(1, [*python(code), "?", "1"])
        assert env.containers.now["node1"].container != before
        assert arrivals(env, 2) == {0, 1}
        assert env.is_lost("node1") and env.state(other) == "gone"
        with pytest.raises(LookupError, match="node7"):
            env.lose_node("node7")


def test_a_container_that_is_killed_by_somebody_ends_the_launch(place, rank):
    with DockerEnvironment(place) as env:
        env.launch(0, rank(0, 3))
        news(env, Arrived)
        process = env.rank_process(0)
        docker("kill", env.containers.now["node0"].container)
        assert news(env, Ended).code == -9
        assert env.state(process) == "gone"
        with pytest.raises(ChaoskitError, match=r"the container of node0 has ended, .* start again"):
            env.containers.now["node0"].agent.ask("unwritable", paths=[])
        # The next launch gets a fresh one.
        env.launch(1, rank(0, 1))
        news(env, Arrived)
        assert env.rank_process(0).key.split("/")[0] != process.key.split("/")[0]
        assert env.nodes() == ("node0",)


def test_warm_agents_start_together_however_long_a_container_imports(place):
    sleeps = ["python3", "-m", "timeit", "-n", "1", "-r", "1", "__import__('time').sleep(99)"]
    with DockerEnvironment(replace(place, nodes=Nodes(2, 2), mode=Mode(warm=True, demanded=True))) as env:
        begun = time.monotonic()
        assert env.launch(0, sleeps) == "warm"
        took = time.monotonic() - begun
        # In hundredths of a second. One after the other, the second would start after half of the time.
        starts = [int(process.key.partition("/")[2]) for process in env.launcher_processes()]
    assert len(starts) == 2 and abs(starts[1] - starts[0]) / 100 < took / 4
