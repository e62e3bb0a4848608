"""Faults of Chaos Mesh in real pods, through the environment."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from chaoskit.capabilities import (
    CanDegrade,
    CanFailStorage,
    CanHideNames,
    CanPartition,
    CanShowClaims,
    InjectedIOError,
)
from chaoskit.environments import offers
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.kubernetes.chaos.chaos_pods import ChaosLimits
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.errors import ChaoskitError
from chaoskit.faults.storage.fail_storage import MODIFYING
from chaoskit.nodes import Nodes
from tests.environments.events import news
from tests.environments.kubernetes.conftest import left

THERE, BACK = ("node0", "node1"), ("node1", "node0")


def test_the_environment_offers_them():
    needed = (CanPartition, CanDegrade, CanHideNames, CanFailStorage, CanShowClaims)
    assert all(offers("kubernetes", can) for can in needed)


@pytest.fixture
def two_pods(pods_place, mesh_in_pods):
    with KubernetesEnvironment(replace(pods_place, nodes=Nodes(2, 2))) as env:
        yield env


@pytest.mark.launches
def test_a_cut_between_pods_is_felt_and_is_made_again_for_a_fresh_pod(two_pods, stub, until):
    env = two_pods
    env.launch(0, stub(0, 9))
    news(env, Arrived)
    assert env.reaches(*THERE) and env.reaches(*BACK)
    number = env.cut([THERE, BACK])
    assert not env.reaches(*THERE) and not env.reaches(*BACK)
    claims = env.claims()
    assert [claim["conditions"]["AllInjected"] for claim in claims] == [True, True]
    assert env.lost(number) == {"node0>node1": 0, "node1>node0": 0}, "the stub talks to nobody"
    env.lose_node("node1")
    assert news(env, Ended).launch == 0
    env.launch(1, stub(0, 9))
    assert not env.reaches(*THERE) and not env.reaches(*BACK), "the fresh pod is cut off, too"
    assert {claim["uid"] for claim in env.claims()}.isdisjoint(claim["uid"] for claim in claims)
    env.mend(number)
    assert env.reaches(*THERE) and env.reaches(*BACK) and env.claims() == []


@pytest.mark.launches
def test_one_way_and_names(two_pods, until):
    env = two_pods
    number = env.cut([THERE])
    assert not env.reaches(*THERE) and env.reaches(*BACK)
    env.mend(number)
    assert env.resolves("node0", "node1") and env.resolves("node1", "node0")
    env.hide_names(["node0"])
    assert not env.resolves("node0", "node1") and env.resolves("node1", "node0")
    env.show_names(["node0"])
    assert env.resolves("node0", "node1")


@pytest.mark.launches
def test_a_slow_link_is_felt(two_pods, until):
    env = two_pods
    number = env.degrade(["node1"], delay=0.05)
    assert env.degraded(number)["held"] > 0
    env.restore(number)


@pytest.mark.launches
def test_requests_to_the_storage_fail_in_the_pods_and_count_once_the_job_says_so(two_pods, pods_place):
    env = two_pods
    number = env.fail_storage(InjectedIOError(operations=MODIFYING, error="EROFS"))

    def errors():
        return [env.pods.ask(node, "error_of_write", directory=str(pods_place.out)) for node in env.nodes()]

    assert errors() == [errno.EROFS, errno.EROFS]
    log = pods_place.run_dir / "logs" / "launch-0.log"
    assert env.storage_met(number)["count"] == 0, "the job has felt nothing"
    log.write_text("saving failed: [Errno 28] No space left on device\n")
    assert env.storage_met(number)["count"] == 0, "another error"
    with log.open("a") as file:
        file.write("saving failed: [Errno 30] Read-only file system: 'ckpt'\n")
    met = env.storage_met(number)
    assert met["count"] == 1 and met["failing"] == ["node0", "node1"] and "Errno 30" in met["said"][0]
    env.mend_storage(number)
    assert errors() == [0, 0] and env.storage_met(number)["count"] == 1 and env.claims() == []
    assert list(pods_place.out.iterdir()) == []


@pytest.mark.launches
def test_a_job_that_says_so_proves_nothing_while_requests_succeed(two_pods, pods_place, mesh_in_pods):
    mesh_in_pods.lies = True
    number = two_pods.fail_storage(InjectedIOError(operations=MODIFYING, error="EROFS", nodes=("node1",)))
    (pods_place.run_dir / "logs" / "launch-0.log").write_text("[Errno 30]\n")
    assert two_pods.storage_met(number)["count"] == 0
    with pytest.raises(LookupError, match="cannot count or delay"):
        two_pods.fail_storage(InjectedIOError(error="EIO", times=1))


@pytest.mark.launches
@pytest.mark.exhaustive
def test_what_chaos_mesh_does_not_inject_has_no_target_and_what_it_does_not_take_back_ends_the_run(
    pods_place, mesh_in_pods, connection, monkeypatch
):
    monkeypatch.setattr(
        "chaoskit.environments.kubernetes.chaos.pod_links.PodLinks.__init__.__kwdefaults__",
        {"limits": ChaosLimits(60.0, 3.0, 3.0)},
    )
    two = KubernetesEnvironment(replace(pods_place, nodes=Nodes(2, 2)))
    with pytest.raises(ChaoskitError, match=r"was removed by force.*remove its pods"), two as env:
        mesh_in_pods.fails = lambda pod: "no ipset"
        with pytest.raises(LookupError, match="no ipset"):
            env.cut([THERE])
        assert env.claims() == []
        mesh_in_pods.fails = lambda pod: None
        env.cut([THERE])
        mesh_in_pods.stuck = "no iptables"
    mesh_in_pods.stuck = ""
    assert left(connection, pods_place.cluster.namespace) == []
