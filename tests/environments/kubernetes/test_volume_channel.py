"""Pods that reach chaoskit by files on the volume: chaoskit listens where no pod can connect to it."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.pod_channel import NAME
from tests.docker_images import images
from tests.environments.events import arrivals, news
from tests.environments.kubernetes.jobs_of_stubs import starts

pytestmark = pytest.mark.launches


def by_files(place):
    """The place of a run whose pods have no address of chaoskit."""
    return replace(place, cluster=replace(place.cluster, channel="volume", address=""))


def test_a_run_from_gate_to_gate_with_faults(pods_place, stub, machines, until):
    directory = pods_place.run_dir / NAME
    with KubernetesEnvironment(by_files(pods_place)) as env:
        assert env.gate.door.listener.getsockname()[0] == "127.0.0.1"
        modes = {path.suffix: path.stat().st_mode & 0o777 for path in (directory, *directory.iterdir())}
        assert modes == {"": 0o700, ".up": 0o600, ".down": 0o600}
        assert {path.stat().st_uid for path in directory.iterdir()} == {os.geteuid()}

        env.launch(0, stub(1, 2))
        for n in range(2):
            arrived = news(env, Arrived)
            assert (arrived.rank, arrived.at, arrived.n, arrived.record) == (1, "step", n, {"n": n + 1})
            assert env.wait(0.3) == [], "it waits until it is released"
            env.release(1, keep_gating=True)
        assert news(env, Ended) == Ended(0, 0)

        env.launch(1, stub(0, 3))
        news(env, Arrived)
        assert env.signal(env.rank_process(0), signal.SIGKILL)
        assert news(env, Ended) == Ended(1, -9)

        env.launch(2, stub(0, 9))
        news(env, Arrived)
        before = env.pods.now["node0"].uid
        inside = machines.kubelet.pids(before)
        evidence = env.lose_node("node0")
        assert evidence["uid"] == before and evidence["ended"]
        until(lambda: not [pid for pid in inside if Path(f"/proc/{pid}").exists()])
        env.launch(3, stub(0, 9))
        news(env, Arrived)
        assert env.pods.now["node0"].uid != before
        # Nothing in the pod can say that it has ended: the cluster does.
        machines.kubelet.kill_container(env.pods.now["node0"].uid)
        assert news(env, Ended).code == -9
    assert not directory.exists()


@pytest.mark.slow
def test_pods_of_a_controller_come_and_go(job_place):
    with KubernetesEnvironment(by_files(job_place())) as env:
        env.launch(0, [])
        assert arrivals(env, 2) == {0, 1} and env.nodes() == ("node0", "node1")
        before = env.pods.now["node1"].uid
        assert env.lose_node("node1")["uid"] == before and env.is_lost("node1")
        starts(env, "node1")
        assert env.pods.now["node1"].uid != before


@pytest.mark.slow
def test_an_image_with_a_user_of_its_own(pods_place, stub):
    directory = pods_place.run_dir / NAME
    place = replace(by_files(pods_place), image=images.image("ordinary-user"))
    with KubernetesEnvironment(place) as env:
        modes = {path.suffix: path.stat().st_mode & 0o777 for path in (directory, *directory.iterdir())}
        assert modes == {"": 0o777, ".up": 0o666, ".down": 0o666}
        env.launch(0, stub(0, 1))
        news(env, Arrived)
        env.release(0, keep_gating=False)
        assert news(env, Ended) == Ended(0, 0)
