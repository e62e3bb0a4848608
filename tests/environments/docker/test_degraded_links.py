"""Slow and noisy links of containers: what the job notices, that it is counted, and that all is as before."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.environments.docker import network_helpers
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.errors import ChaoskitError
from chaoskit.nodes import NodeLossPolicy, Nodes
from tests.docker_images import images
from tests.environments.docker.conftest import docker, left
from tests.users import must_have

pytestmark = pytest.mark.launches

#: Each node: node0 echoes; node1 notes how long each round trip takes, in a file, and what its interface is.
TALKS = """
import os, socket, sys, time
if os.environ["CHAOSKIT_NODE"] == "node0":
    server = socket.create_server(("", 7000))
    while True:
        line = server.accept()[0]
        try:
            while data := line.recv(1 << 16): line.sendall(data)
        except OSError: pass
while True:
    try: line = socket.create_connection(("node0", 7000), timeout=60); break
    except OSError: time.sleep(0.02)
line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
with open(sys.argv[1], "w", buffering=1) as told:
    while True:
        begun = time.monotonic()
        line.sendall(b"x")
        assert line.recv(1) == b"x"
        hardware = open("/sys/class/net/eth0/address").read().strip()
        print(f"{time.monotonic() - begun} {line.getsockname()[0]} {hardware}", file=told)
        time.sleep(0.01)
"""


@pytest.fixture(params=["root", "helper"])
def env(place, request):
    if request.param == "root":
        must_have(request, network_helpers.why_not_here("ip"))
    helper = images.image("network") if request.param == "helper" else ""
    nodes = Nodes(2, 2, "", NodeLossPolicy(lost="returns"))
    with DockerEnvironment(replace(place, gated=False, nodes=nodes, helper_image=helper)) as env:
        yield env
        names = interfaces(env)
    assert names and not [name for name in names if Path("/sys/class/net", name).exists()]


@pytest.fixture
def talk(env, until):
    """Starts the talk; returns a function that waits for so many more round trips, and returns them."""
    told = env.run.run_dir / "logs" / "told"
    env.launch(0, ["python3", "-I", "-S", "-c", TALKS, str(told)])
    until(told.exists, timeout=60)

    def listen(count):
        lines = told.read_text().splitlines()
        until(lambda: len(told.read_text().splitlines()) > len(lines) + count, timeout=180)
        found = told.read_text().split("\n")[len(lines) + 1 : -1]
        return [float(line.split()[0]) for line in found], {tuple(line.split()[1:]) for line in found}

    return listen


@pytest.mark.parametrize("node", ["node0", "node1"])
def test_round_trips_take_twice_the_delay_and_connections_survive(env, talk, node):
    before, interface = talk(5)
    number = env.degrade([node], delay=0.05)
    during, meanwhile = talk(5)
    assert min(during) >= 0.1 > min(before)
    counts = env.degraded(number)
    assert counts["packets"] >= 10 and counts["held"] >= 10 * 0.05 and counts["corrupted"] == 0
    with pytest.raises(ChaoskitError, match="degraded already"):
        env.degrade([node], corrupt=1)
    assert env.degraded(number)["packets"] >= counts["packets"], "the first one goes on"
    env.restore(number)
    after, afterwards = talk(5)
    assert min(after) < 0.1 and interface == meanwhile == afterwards
    assert not env.network._helpers._running
    assert not [name for name in left(env.run.spec.run_id) if f"{node}-network" in name]
    config = json.loads(docker("inspect", env.containers.now[node].container))[0]["HostConfig"]
    assert (config["Privileged"], config["CapAdd"]) == (False, None)
    env.restore(number)  # an unknown number is no error


def test_flipped_bits_are_counted_and_the_job_gets_what_was_sent(env, talk):
    number = env.degrade(["node0", "node1"], corrupt=20)
    talk(20)  # TCP sends again
    assert env.degraded(number)["corrupted"] > 0
    env.restore(number)
    talk(5)


def test_a_link_that_is_slow_can_be_cut_too(env, talk, until):
    slow = env.degrade(["node1"], delay=0.01)
    cut = env.cut([("node0", "node1")])
    until(lambda: env.lost(cut).get("node0>node1", 0) > 0)
    env.restore(slow)  # the cut stays
    assert not env.reaches("node0", "node1")
    env.mend(cut)
    assert env.reaches("node0", "node1") and not env.network._helpers._running


def test_a_node_with_a_slow_link_is_lost_and_replaced(env, talk):
    number = env.degrade(["node1"], delay=0.02)
    talk(3)
    env.lose_node("node1", replaced=True)
    assert env.is_lost("node1") and env.degraded(number)["packets"] > 0
    env.stop()
    env.run.close_launch()
    if "node1" not in env.job.roster.up:
        env.bring_up("node1")
    env.restore(number)
    assert env.reaches("node0", "node1") and env.reaches("node1", "node0")
    assert len(interfaces(env)) == 2, "the old container's interface has gone"
    env.degrade(["node1"], delay=0.02)  # until the end of the run


def interfaces(env):
    """The interfaces of this machine at the bridge of the run."""
    bridge = f"br-{env.containers._network[:12]}"
    text = subprocess.run(["ip", "-j", "link", "show", "master", bridge], capture_output=True, check=True).stdout
    return sorted(link["ifname"] for link in json.loads(text))
