"""Cuts between containers: what is stopped is counted, the other direction works, and nothing of them stays."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit import Job
from chaoskit.capabilities import CanDegrade, CanLoseNodes, CanPartition
from chaoskit.environments.docker import network_helpers
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.docker.host_paths import HostPaths
from chaoskit.errors import MissingCapability
from chaoskit.nodes import Nodes
from tests.docker_images import images
from tests.environments.docker.conftest import docker, left
from tests.users import must_have

pytestmark = pytest.mark.launches

REPOSITORY = Path(__file__).resolve().parents[3]
#: Connects to a server on the other node and sends a byte every 20 ms; ends with 9 once it is reset.
CLIENT = """
import os, socket, sys, time
if os.environ["CHAOSKIT_NODE"] == "node0":
    server = socket.create_server(("", 7000))
    line = server.accept()[0]
    try:
        while line.recv(100): pass
    except ConnectionResetError: pass
    time.sleep(1000)
while True:
    try: line = socket.create_connection(("node0", 7000), timeout=1); break
    except OSError: time.sleep(0.02)
open(sys.argv[1], "w").close()
while True:
    try: line.send(b"."); time.sleep(0.02)
    except ConnectionResetError: os._exit(9)
"""


@pytest.fixture(params=["root", "helper"])
def env(place, request):
    """Two containers, whose network is changed by root on this machine, or by containers that join it."""
    if request.param == "root":
        must_have(request, network_helpers.why_not_here("nft"))
    helper = images.image("network") if request.param == "helper" else ""
    with DockerEnvironment(replace(place, nodes=Nodes(2, 2), helper_image=helper)) as env:
        yield env


def test_a_cut_stops_one_direction_and_is_counted(env, until):
    said = env.run.run_dir / "logs" / "connected"
    env.launch(0, ["python3", "-I", "-S", "-c", CLIENT, str(said)])
    until(said.exists, timeout=60)
    assert env.reaches("node0", "node1") and env.reaches("node1", "node0")
    number = env.cut([("node1", "node0")])
    assert not env.reaches("node1", "node0") and env.reaches("node0", "node1")
    until(lambda: env.lost(number).get("node1>node0", 0) > 0)
    if env.run.spec.helper_image:
        (name,) = [name for name in left(env.run.spec.run_id) if "node0-network" in name]
        host = json.loads(docker("inspect", name))[0]["HostConfig"]
        assert (host["Privileged"], host["CapAdd"], host["CapDrop"]) == (
            *(False, ["NET_ADMIN", "NET_RAW"], ["ALL"]),
        )
    helpers = list(env.network._helpers._running.values())
    env.mend(number)
    assert env.reaches("node1", "node0")
    assert not env.network._helpers._running and len(helpers) == 1
    assert not [name for name in left(env.run.spec.run_id) if "node0-network" in name]
    env.mend(number)  # an unknown number is no error


def test_a_reset_ends_connections_and_allows_new_ones(env, until):
    said = env.run.run_dir / "logs" / "connected"
    env.launch(0, ["python3", "-I", "-S", "-c", CLIENT, str(said)])
    until(said.exists, timeout=60)
    number = env.cut([("node1", "node0"), ("node0", "node1")], how="reset")
    deadline = time.monotonic() + 30
    ended = []
    while not ended and time.monotonic() < deadline:
        ended = [e for e in env.wait(1) if getattr(e, "kind", "") == "node.end"]
    assert (ended[0].data["node"], ended[0].data["code"]) == ("node1", 9)
    assert env.lost(number)["node1>node0"] > 0
    env.mend(number)


def test_what_is_cut_stays_cut_for_a_container_that_takes_the_place(env):
    number = env.cut([("node0", "node1")])
    env.job.roster.up.remove("node1")
    env.bring_up("node1")
    assert not env.reaches("node0", "node1") and env.reaches("node1", "node0")
    env.mend(number)
    assert env.reaches("node0", "node1")


def test_a_cut_at_a_node_that_is_not_there_leaves_no_rule(env):
    with pytest.raises(KeyError):
        env.cut([("node0", "node1"), ("node9", "node1")])
    assert env.reaches("node0", "node1") and not env.network._cuts


def test_a_helper_that_cannot_do_it_is_a_missing_capability(place, image):
    with DockerEnvironment(replace(place, nodes=Nodes(2, 2), helper_image=images.image("no-python"))) as env:
        with pytest.raises(MissingCapability, match=r"network helper of the image .* cannot be used") as missing:
            env.cut([("node0", "node1")])
        assert "run chaoskit as root" in missing.value.remedy
        assert env.reaches("node0", "node1")


@pytest.mark.slow
def test_the_image_of_chaoskit_can_be_the_helper(place, build_image):
    helper = build_image("network", REPOSITORY)
    with DockerEnvironment(replace(place, nodes=Nodes(2, 2), helper_image=helper)) as env:
        number = env.cut([("node0", "node1")])
        assert not env.reaches("node0", "node1") and env.reaches("node1", "node0")
        env.mend(number)
        assert env.reaches("node0", "node1")


def test_who_may_not_enter_networks_and_has_no_helper_is_told_so(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    words = ["torchrun", "{out}"]
    bare, helped = (Job.from_command(words, image="ours", **more) for more in ({}, {"helper_image": "x"}))
    for capability in (CanPartition, CanDegrade):
        assert "run chaoskit there as root, or give --helper-image" in (
            DockerEnvironment.lacks(capability, bare) or ""
        )
        assert DockerEnvironment.lacks(capability, helped) is None
    assert DockerEnvironment.lacks(CanLoseNodes, None) is None


def test_root_without_the_tools_is_told_which(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(network_helpers, "host_paths", HostPaths)
    monkeypatch.setattr(network_helpers, "missing", lambda: ["iproute2", "nftables"])
    assert network_helpers.why_not_here(
        "nft"
    ) == "it needs nft: apt-get install nftables, or give --helper-image IMAGE"
    assert network_helpers.why_not_here(
        "ip"
    ) == "it needs ip: apt-get install iproute2, or give --helper-image IMAGE"
    monkeypatch.setattr(network_helpers, "missing", lambda: ["iproute2"])
    assert DockerEnvironment.lacks(CanPartition, None) is None
