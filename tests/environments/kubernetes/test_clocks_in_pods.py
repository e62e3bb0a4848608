"""The wall clocks of pods jump by TimeChaos, and their ranks record it; through the environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaoskit.capabilities import CanSkewClock
from chaoskit.environments import offers
from chaoskit.environments.environment import Ended
from chaoskit.environments.kubernetes.chaos.chaos_pods import ChaosLimits
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.machine import process_clocks
from chaoskit.job import Job
from chaoskit.nodes import Nodes
from tests.environments.events import news
from tests.environments.machine.test_clock_faults import RANK
from tests.users import must_have

COMMAND = ["python3", "-I", "-S", "-c", RANK, RANK]


def test_the_environment_offers_it():
    assert offers("kubernetes", CanSkewClock)


@pytest.mark.usefixtures("crds")
def test_without_chaos_mesh_nobody_sets_clocks(cluster_place):
    job = Job.from_command(["x", "{out}"], image="t", cluster=cluster_place)
    assert "it needs Chaos Mesh, whose controller has not looked at a new TimeChaos" in KubernetesEnvironment.lacks(
        CanSkewClock, job
    )


@pytest.fixture
def two_pods(request, pods_place, mesh_in_pods):
    must_have(request, process_clocks.why_not())
    with KubernetesEnvironment(replace(pods_place, nodes=Nodes(2, 2), gated=False)) as env:
        yield env


def rounded(env, skew):
    found = env.clock_skewed(skew)
    return {name: {rank: round(off) for rank, off in found[name].items()} for name in ("ranks", "others")}


def began(env, count):
    records = env.run.run_dir / "events"
    return len([path for path in records.glob("rank-*") if path.stat().st_size]) == count


@pytest.mark.launches
def test_the_clocks_of_one_pod_jump_and_come_back(two_pods, mesh_in_pods, until):
    env = two_pods
    env.launch(0, COMMAND)
    until(lambda: began(env, 2))
    skew = env.skew_clock(-1, by=-600.0)
    until(lambda: rounded(env, skew) == {"ranks": {1: -600}, "others": {0: 0}})
    (claim,) = env.claims()
    assert claim["kind"] == "TimeChaos" and claim["conditions"]["AllInjected"]
    # Chaos Mesh chooses processes once: the program that takes the place of this one has the right time.
    (env.run.run_dir / "again-node1").touch()
    until(lambda: began(env, 3))
    env.keep_clock(skew)
    env.set_clock_right(skew)
    env.set_clock_right(99)
    assert env.claims() == []
    both = env.skew_clock(None, by=60.0)
    until(lambda: rounded(env, both) == {"ranks": {0: 60, 1: 60}, "others": {}})
    with pytest.raises(LookupError, match="node 2 is not up; up are node0, node1"):
        env.skew_clock(2, by=5.0)
    env.set_clock_right(both)
    mesh_in_pods.lies = True
    lie = env.skew_clock(0, by=9.0)
    assert env.claims()[0]["conditions"]["AllInjected"]
    assert rounded(env, lie) == {"ranks": {0: 0}, "others": {1: 0}}
    env.set_clock_right(lie)
    env.stop()
    assert news(env, Ended).launch == 0


@pytest.mark.launches
def test_one_that_chaos_mesh_does_not_inject_has_no_target(two_pods, mesh_in_pods):
    clocks = two_pods.mesh.clocks
    clocks.faults._limits = ChaosLimits(60.0, 3.0, 3.0)
    mesh_in_pods.fails = lambda pod: "cannot find a process"
    with pytest.raises(LookupError, match="cannot find a process"):
        two_pods.skew_clock(0, by=5.0)
    assert two_pods.claims() == []
