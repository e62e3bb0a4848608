"""Containers that are given notice, in their own network, and are then taken away; nothing of it stays.

No torch: the command of each node is the script of the tests on virtual hosts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanOwnAddress, CanPreempt, PreemptionNotice
from chaoskit.environments.docker import container_metadata, environment, network_helpers
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import ExtraEvent
from chaoskit.environments.machine import scratch
from chaoskit.errors import ChaoskitError, MissingCapability
from chaoskit.nodes import Nodes
from tests.docker_images import images
from tests.environments.docker.conftest import docker, left
from tests.environments.machine.test_preemptions import JOB, over, turn
from tests.users import REPOSITORY, must_have

pytestmark = pytest.mark.launches

#: The image starts somewhere else; the tests see this directory.
HERE = 'import os; os.chdir(os.environ["CHAOSKIT_RUN"] + "/logs")\n'
GOOGLE = "http://metadata.google.internal/computeMetadata/v1/instance/preempted"
#: Asks once, and writes down the answer and the way to it.
ASK = """
import json, os, socket, urllib.request
at = urllib.request.Request(%r, headers={"Metadata-Flavor": "Google"})
told = [urllib.request.urlopen(at, timeout=20).read().decode(), socket.gethostbyname("metadata")]
with open(os.environ["CHAOSKIT_RUN"] + "/logs/answer-" + os.environ["CHAOSKIT_NODE"], "w") as out:
    json.dump(told, out)
"""


@pytest.fixture
def begin(place, request):
    """Two containers in which the job runs, whose ranks get these words. `by` whom the network is entered."""
    made = []

    def enter(*words, by="root", command=None, **given):
        if by == "root":
            must_have(request, network_helpers.why_not_here("ip"))
        helper = images.image("network") if by == "helper" else ""
        spec = replace(place, gated=False, nodes=Nodes(2, 2), helper_image=helper, **given)
        env = DockerEnvironment(spec).__enter__()
        made.append(env)
        env.command = command or ["python3", "-I", "-S", "-c", HERE + JOB, *words]
        env.launch(0, env.command)
        if command is None:
            turn(env, lambda: {"node0 0 up", "node1 0 up"} <= {*told(env)})
        return env

    yield enter
    for each in made:
        each.__exit__(None, None, None)


def told(env):
    path = env.run.run_dir / "logs" / "told"
    return path.read_text().splitlines() if path.exists() else []


def test_what_it_can():
    assert issubclass(DockerEnvironment, CanPreempt) and issubclass(DockerEnvironment, CanOwnAddress)


@pytest.mark.parametrize("by", ["root", "helper"])
def test_a_container_is_told_by_its_cloud_and_taken_away_at_the_end(begin, by):
    env = begin("aws", by=by, metadata="aws")
    assert len(left(env.run.spec.run_id)) == 3, "two nodes and their network: the helpers have gone"
    env.preempt("node1", PreemptionNotice(seconds=2.0, cloud="aws"))
    found, _ = over(env, "node1")
    assert found["ended"] is None and found["killed"] >= 2.0
    (receipt,) = found["received"]
    assert (receipt["rank"], receipt["path"]) == (1, "/latest/meta-data/spot/instance-action")
    assert 0 < receipt["after"] < 2.0 and found["asked"] > 1 and found["refused"] == 0
    assert "node1 0 notice" in told(env) and "node0 0 notice" not in told(env)
    assert env.is_lost("node1")
    turn(env, lambda: env.run.has_ended)
    env.launch(1, env.command)
    turn(env, lambda: {"node0 1 up", "node2 1 up"} <= {*told(env)})
    assert env.preemptible() == ("node0", "node2")
    assert env.run.metadata.board("node2").notice is None


def test_google_is_found_by_its_name_and_each_node_has_its_own(begin):
    env = begin(metadata="gcp", command=["python3", "-I", "-S", "-c", ASK % GOOGLE])
    found, places = [], [env.run.run_dir / "logs" / f"answer-node{number}" for number in range(2)]
    env.run.metadata.board("node1").post(seconds=60)
    deadline = time.monotonic() + 60
    while not env.run.has_ended:
        assert time.monotonic() < deadline
        found += env.wait(5)
    told = [json.loads(path.read_text()) for path in places]
    assert [each[1] for each in told] == ["169.254.169.254"] * 2
    asked = [each.data for each in found if isinstance(each, ExtraEvent) and each.kind == "metadata"]
    assert {each["node"] for each in asked} == {"node0", "node1"} and all(each["pid"] for each in asked)
    env.launch(1, env.command)
    turn(env, lambda: env.run.has_ended)
    assert [json.loads(path.read_text())[0] for path in places] == ["FALSE", "TRUE"]


def test_signals_to_the_ranks_and_all_that_they_have_started(begin):
    env = begin("child")
    turn(env, lambda: sum("forked" in line for line in told(env)) == 4)
    env.preempt("node0", PreemptionNotice(seconds=1.0, signal=10, to_children=True, kills=False))
    found, end = over(env, "node0")
    assert len(found["received"]) == 3 and end is None
    assert sum("USR1" in line for line in told(env)) == 3
    assert not any(line.startswith("node1") and "USR1" in line for line in told(env))


def test_a_launch_that_ends_gives_the_node_back(begin):
    env = begin()
    env.preempt("node0", PreemptionNotice(seconds=50.0, signal=15, to_agent=True))
    found, end = over(env, "node0")
    assert end is not None and end.code == 143
    assert found["killed"] is None and found["ended"] < 45 and len(found["received"]) == 1
    env.launch(1, env.command)
    turn(env, lambda: {"node1 1 up", "node2 1 up"} <= {*told(env)})


def test_who_may_not_enter_the_network_is_told_so(place, monkeypatch):
    for module in (environment, network_helpers):
        monkeypatch.setattr(module, "why_not_here", lambda tool: "only root")
    with pytest.raises(MissingCapability, match="a metadata service cannot be had in containers: only root"):
        DockerEnvironment(replace(place, gated=False, metadata="aws")).__enter__()
    assert DockerEnvironment.lacks(CanOwnAddress, None) == "only root"
    assert DockerEnvironment.lacks(CanPreempt, None) is None


def test_the_network_of_the_machine_is_never_shadowed(begin):
    env = begin("aws", metadata="aws")
    node = replace(env.containers.now["node0"], network=os.stat("/proc/self/ns/net").st_ino)
    with pytest.raises(ChaoskitError, match="node0 is on the network of this machine"):
        env._metadata.serve(node)
    with pytest.raises(ChaoskitError, match=f"node0 cannot have {container_metadata.ADDRESS}:80 for itself"):
        env._metadata.serve(env.containers.now["node0"])
    here = subprocess.run(["ip", "-4", "addr", "show"], capture_output=True, text=True, check=True).stdout
    assert container_metadata.ADDRESS not in here


HARNESS = """
import sys, time
from pathlib import Path
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import RunSpec
place = Path(sys.argv[1])
given = {"image": sys.argv[3], "program": "python3", "gated": False, "metadata": "aws"}
spec = RunSpec(place / "run", place / "run" / "out", place, sys.argv[2], **given)
with DockerEnvironment(spec) as env:
    env.launch(0, ["sleep", "1000"])
    print("up", flush=True)
    time.sleep(1000)
"""


def test_nothing_is_left_of_a_harness_that_is_killed(place, image, request, until):
    must_have(request, network_helpers.why_not_here("ip"))
    words = [sys.executable, "-c", HARNESS, str(place.run_dir.parent), place.run_id, image]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout.readline() == "up\n"
        (node,) = docker("ps", "-q", "--filter", f"label=chaoskit.run={place.run_id}").split()
        pid = docker("inspect", "-f", "{{.State.Pid}}", node)
        network = os.readlink(f"/proc/{pid}/ns/net")
        harness.send_signal(signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{pid}"), timeout=60)
    DockerEnvironment.sweep(place.run_dir.parent)
    scratch.remove(place.run_id)  # the run is in no store, whose sweep does that
    assert left(place.run_id) == []
    held = {os.readlink(f"/proc/{one}/ns/net") for one in os.listdir("/proc") if one.isdecimal() and _readable(one)}
    assert network not in held


def _readable(pid):
    try:
        return bool(os.readlink(f"/proc/{pid}/ns/net"))
    except OSError:
        return False
