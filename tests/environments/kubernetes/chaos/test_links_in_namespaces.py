"""Faults of Chaos Mesh in real networks, from the request to what the job feels; and a controller that lies."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from chaoskit.capabilities import CanDegrade, CanHideNames, CanPartition
from chaoskit.environments.kubernetes.chaos.chaos_pods import ChaosLimits
from chaoskit.environments.kubernetes.chaos.pod_faults import PodMesh, PodMeshFaults
from tests.environments.kubernetes.chaos.namespace_pods import ADDRESSES, NamespacePods
from tests.kubernetes_server.chaos_in_namespaces import NamespaceBackend
from tests.users import must_have

ONE_WAY, BACK = ("node0", "node1"), ("node1", "node0")


class Environment(PodMeshFaults):
    def __init__(self, pods, mesh):
        self.pods, self._mesh = pods, mesh

    @property
    def mesh(self):
        return self._mesh

    def nodes(self):
        return self.pods.nodes()


@pytest.fixture
def pods(request, run, running, connection):
    lacking = [tool for tool in ("nft", "ip", "nsenter") if not shutil.which(tool)]
    must_have(request, "only root makes networks for pods" if os.geteuid() else f"no {lacking}" if lacking else None)
    made = NamespacePods(run, connection)
    for number, address in enumerate(ADDRESSES.values()):
        running(number, ip=address)
    yield made
    made.close()


@pytest.fixture
def env(pods, mesh):
    mesh.backend = NamespaceBackend(pods.pid_of)
    nowhere = Path("/nowhere")  # nothing is done to the storage
    made = Environment(pods, PodMesh.of(pods, volume=nowhere, out=nowhere, limits=ChaosLimits(60, 20, 5)))
    yield made
    made.mesh.links.close()


def feels(env, number, holds, *, talk=1000):
    """What is felt of a fault once it holds, while the job goes on."""
    deadline = time.monotonic() + 60
    while not holds(felt := env.lost(number) if number in env.mesh.links._cuts else env.degraded(number)):
        assert time.monotonic() < deadline, felt
        env.pods.job_talks(talk)
        time.sleep(0.05)
    return felt


def test_it_fulfils_the_capabilities(env):
    assert all(isinstance(env, capability) for capability in (CanPartition, CanDegrade, CanHideNames))


@pytest.mark.parametrize("ways", [[ONE_WAY], [BACK], [ONE_WAY, BACK]], ids=["to", "from", "both"])
def test_a_partition_is_felt_and_ends(env, ways):
    assert env.reaches(*ONE_WAY) and env.reaches(*BACK)
    number = env.cut(ways)
    felt = feels(env, number, lambda counts: any(counts.values()))
    assert set(felt) == {">".join(way) for way in ways}
    assert [env.reaches(*way) for way in (ONE_WAY, BACK)] == [way not in ways for way in (ONE_WAY, BACK)]
    evidence = env.mesh.links.evidence(number)
    assert evidence["felt"] and all(one["conditions"]["AllInjected"] for one in evidence["chaos_mesh"])
    env.mend(number)
    assert env.reaches(*ONE_WAY) and env.reaches(*BACK)
    env.mend(number)


def test_lost_packets_are_felt(env):
    number = env.cut([ONE_WAY, BACK], percent=30)
    assert any(feels(env, number, lambda counts: any(counts.values()), talk=1 << 16).values())
    env.mend(number)


def test_a_delay_is_felt_and_ends(env):
    number = env.degrade(["node0"], delay=0.05)
    felt = feels(env, number, lambda counts: counts["packets"] > 0 and counts["held"] > 0)
    assert 0.02 < felt["held"] / felt["packets"] < 0.5 and felt["corrupted"] == 0 and felt["bytes"] > 0
    env.restore(number)
    assert env.mesh.links._felt.round_trip(*ONE_WAY) < 0.05


def test_a_slow_link_is_felt(env):
    number = env.degrade(["node0"], rate=100_000)
    assert feels(env, number, lambda counts: counts["held"] > 0, talk=1 << 20)["packets"] > 0


def test_damage_is_felt(env):
    number = env.degrade(["node1"], corrupt=20)
    felt = feels(env, number, lambda counts: counts["corrupted"] > 0, talk=1 << 14)
    assert felt["packets"] > 0 and felt["held"] == 0


def talked(env, seconds=2.0, size=1000):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        env.pods.job_talks(size)
        time.sleep(0.05)


def test_a_controller_that_lies_is_not_believed(env, mesh):
    """It says that all is injected, and does nothing: no evidence may come of it."""
    mesh.lies = True
    cut, loss = env.cut([ONE_WAY, BACK]), env.cut([ONE_WAY], percent=30)
    talked(env)
    for number in (cut, loss):
        assert all(one["conditions"]["AllInjected"] for one in env.mesh.links.evidence(number)["chaos_mesh"])
        assert not any(env.lost(number).values())
        env.mend(number)
    assert env.reaches(*ONE_WAY)
    for quality in ({"delay": 0.05}, {"rate": 10_000}, {"corrupt": 20}):
        number = env.degrade(["node0"], **quality)
        talked(env, size=1 << 16)
        counts = env.degraded(number)
        assert counts["held"] == 0 == counts["corrupted"] and counts["packets"] > 0, quality
        env.restore(number)
