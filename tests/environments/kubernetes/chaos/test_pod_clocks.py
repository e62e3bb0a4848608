"""What is asked of Chaos Mesh for pods whose clocks are wrong; the agents are played here."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.api_kinds import TIME_CHAOS
from chaoskit.environments.kubernetes.chaos.chaos_pods import ChaosLimits
from chaoskit.environments.kubernetes.chaos.pod_clocks import PodClocks
from chaoskit.environments.kubernetes.chaos.refusals import FaultNotInjected
from tests.environments.kubernetes.chaos.test_pod_links import PlayedPods, there


@pytest.fixture
def pods(run, running, connection):
    running(0)
    running(1)
    return PlayedPods(run, connection, ("node0", "node1"))


@pytest.fixture
def clocks(pods, mesh):
    made = PodClocks(pods, limits=ChaosLimits(60, 5, 2))
    yield made
    made.close()


def asked(pods):
    return [one["spec"] for one in there(pods, TIME_CHAOS)]


def test_each_node_has_a_fault_of_its_own(clocks, pods):
    number = clocks.skew(["node0", "node1"], by=-600.0)
    specs = asked(pods)
    assert [spec["timeOffset"] for spec in specs] == ["-600000ms", "-600000ms"]
    assert {spec["duration"] for spec in specs} == {"60000ms"}
    for spec in specs:
        assert spec["clockIds"] == ["CLOCK_REALTIME"] and spec["containerNames"] == [pods.container]
    nodes = {spec["selector"]["labelSelectors"]["chaoskit.dev/node"] for spec in specs}
    assert nodes == {"0", "1"}
    clocks.set_right(99)
    clocks.set_right(number)
    assert asked(pods) == [] and clocks.faults.claims() == []


def test_a_clock_that_is_off_must_be_set_right_first(clocks, pods):
    number = clocks.skew(["node1"], by=2.5)
    with pytest.raises(LookupError, match="the clock of node1 is off already"):
        clocks.skew(["node0", "node1"], by=2.5)
    assert len(asked(pods)) == 1
    clocks.came_up("node1")
    clocks.set_right(number)
    clocks.skew(["node1"], by=5.0)


def test_one_that_is_not_injected_leaves_nothing_and_may_be_tried_again(clocks, pods, mesh):
    mesh.fails = lambda pod: "cannot find a process"
    with pytest.raises(FaultNotInjected, match="cannot find a process"):
        clocks.skew(["node0"], by=2.5)
    assert asked(pods) == []
    mesh.fails = lambda pod: None
    clocks.skew(["node0"], by=2.5)


def test_all_is_taken_back_in_the_end(clocks, pods):
    clocks.skew(["node0"], by=2.5)
    clocks.skew(["node1"], by=-2.5)
    clocks.close()
    assert asked(pods) == []
