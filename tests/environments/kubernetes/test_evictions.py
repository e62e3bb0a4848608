"""A node is evicted: its job gets SIGTERM and the grace of the pod, and a fresh pod takes its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kubernetes import client

from chaoskit.capabilities import CanDrain, CanEvict
from chaoskit.environments import must_offer, offers
from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.errors import ChaoskitError, MissingCapability
from chaoskit.job import Job
from chaoskit.nodes import Nodes
from tests.environments.events import news
from tests.kubernetes_server.faults import ApiFault, seeded

#: A rank on each node, which takes so many seconds to end after SIGTERM.
SLOW = """
import os, runpy, signal, sys, time
def leave(*_):
    time.sleep({seconds})
    sys.exit(7)
signal.signal(signal.SIGTERM, leave)
sys.argv[1] = os.environ["CHAOSKIT_NODE"].removeprefix("node")
runpy.run_path({stub!r}, run_name="__main__")
"""


@pytest.fixture
def evicted(until):
    """Evicts a node; returns what was observed once it is gone, and the end of the launch if that has come."""

    def evict(env, node, *, replaced=True):
        env.evict_node(node, replaced=replaced)
        found, ends = [], []

        def is_seen():
            ends.extend(event for event in env.wait(0.05) if isinstance(event, Ended))
            found[:] = [env.evicted(node)]
            return found[0]

        until(is_seen, timeout=60)
        return found[0], ends

    return evict


@pytest.fixture
def drained(until):
    """Drains the machine of a node, and launches the job again after that; returns what was observed."""

    def drain(env, node, command):
        env.drain_node(node)
        found = []

        def is_seen():
            if any(isinstance(event, Ended) for event in env.wait(0.05)):
                assert env.drained(node) is None, "no fresh node is up yet"
                env.launch(1, command)
            found[:] = [env.drained(node)]
            return found[0]

        until(is_seen, timeout=60)
        return found[0]

    return drain


def both_arrive(env, until):
    """Wait until the ranks of both nodes listen to signals."""
    arrived = set()

    def have_both():
        arrived.update(event.rank for event in env.wait(1) if isinstance(event, Arrived))
        return arrived == {0, 1}

    until(have_both, timeout=60)


@pytest.fixture
def slow(pods_place, stub):
    """The command of a rank that ends slowly."""

    def command(seconds):
        words = stub(0, 9)
        script = pods_place.store / "slow.py"
        script.write_text(SLOW.format(seconds=seconds, stub=words[3]))
        return [*words[:3], str(script), *words[4:]]

    return command


@pytest.mark.launches
def test_a_node_is_evicted_and_a_fresh_one_takes_its_place(pods_place, stub, slow, machines, evicted, until):
    with KubernetesEnvironment(replace(pods_place, nodes=Nodes(2, 2))) as env:
        env.launch(0, slow(0.5))
        both_arrive(env, until)
        before = env.pods.now["node1"]
        inside = machines.kubelet.pids(before.uid)
        launchers = [process.pid for process in env.launcher_processes()]
        found, ends = evicted(env, "node1")
        assert found["gone"] == before.uid and found["grace"] == 30
        assert found["sigterm"] == {"passed_on": launchers[1:], "delivered": True}
        assert 0.5 <= found["ended"] < 25 and found["killed"] is None and not found["grace_used_up"]
        (claim,) = found["claimed"]
        assert (claim["condition"]["status"], claim["condition"]["reason"]) == ("True", "EvictionByEvictionAPI")
        until(lambda: not [pid for pid in inside if Path(f"/proc/{pid}").exists()])
        # The other node is told to end, as by a scheduler, and the job is launched again on a fresh one.
        assert (ends or [news(env, Ended)])[0].launch == 0
        env.launch(1, stub(0, 0))
        assert news(env, Ended) == Ended(1, 0)
        assert env.nodes() == ("node0", "node2")
        with pytest.raises(LookupError, match="node1 is not up"):
            env.evict_node("node1", replaced=True)


@pytest.mark.launches
def test_a_node_of_a_drained_machine_comes_up_on_another_one(pods_place, stub, slow, drained, until, connection):
    with KubernetesEnvironment(replace(pods_place, nodes=Nodes(2, 2))) as env:
        env.launch(0, slow(0.5))
        both_arrive(env, until)
        before = dict(env.pods.now)
        assert before["node0"].machine != before["node1"].machine, "the one that is drained has fewer pods then"
        found = drained(env, "node1", stub(0, 0))
        fresh = env.pods.now["node2"]
        assert found["gone"] == before["node1"].uid and found["sigterm"]["delivered"] and found["ended"] is not None
        assert found["machine"] == before["node1"].machine != found["fresh"]["machine"] == fresh.machine
        assert (found["fresh"]["node"], found["fresh"]["uid"]) == ("node2", fresh.uid)
        assert news(env, Ended) == Ended(1, 0)
        # The machine is as it was: a later pod may come up there.
        core = client.CoreV1Api(connection.address.client)
        assert not any(node.spec.unschedulable or node.spec.taints for node in core.list_node().items)
        env.launch(2, slow(0.1))
        news(env, Arrived)
        env.lose_node("node2", replaced=True)
        assert news(env, Ended).launch == 2
        env.launch(3, stub(0, 0))
        assert env.pods.now["node3"].machine == before["node1"].machine


@pytest.mark.launches
def test_no_other_machine_takes_the_node_of_a_drained_one(pods_place, stub, slow, connection):
    core = client.CoreV1Api(connection.address.client)
    with KubernetesEnvironment(pods_place) as env:
        env.launch(0, slow(0.1))
        news(env, Arrived)
        machine = env.pods.now["node0"].machine
        for node in core.list_node().items:
            if node.metadata.name != machine:
                core.patch_node(node.metadata.name, {"spec": {"unschedulable": True}})
        env.drain_node("node0")
        assert news(env, Ended).launch == 0
        env.pods._limit = 3.0
        said = (
            r"0/2 nodes are available: 1 node\(s\) didn't match Pod's node affinity/selector, 1 node\(s\) were "
            rf"unschedulable.*\(its node was drained, and the pod must not run on {machine} again: let the cluster have"
        )
        with pytest.raises(ChaoskitError, match=said):
            env.launch(1, stub(0, 0))
        assert env.drained("node0") is None


@pytest.mark.launches
def test_pods_of_a_controller_cannot_be_kept_off_a_machine(job_place):
    job = Job.from_command(["x", "{out}"], image="t", cluster=job_place().cluster)
    why = KubernetesEnvironment.lacks(CanDrain, job)
    assert "nothing can keep one of them off a machine: leave --job-template out, or use evict_node" in why
    with KubernetesEnvironment(job_place()) as env:
        env.launch(0, [])
        news(env, Arrived)
        with pytest.raises(LookupError, match="the controller of a job template makes the pods"):
            env.drain_node("node1")
        assert env.pods.exists("node1")


@pytest.mark.launches
def test_who_needs_longer_than_the_grace_is_killed(pods_place, stub, slow, evicted):
    place = replace(pods_place, cluster=replace(pods_place.cluster, grace=2))
    with KubernetesEnvironment(place) as env:
        env.launch(0, slow(600))
        news(env, Arrived)
        found, ends = evicted(env, "node0", replaced=False)
        assert found["grace"] == 2 and found["sigterm"]["delivered"]
        assert found["ended"] is None and found["killed"] > 1 and found["grace_used_up"]
        assert (ends or [news(env, Ended)])[0].launch == 0
        env.launch(1, stub(0, 0))
        assert news(env, Ended) == Ended(1, 0)
        # The policy of the job: the node itself is back.
        assert env.nodes() == ("node0",)


@pytest.mark.launches
def test_the_grace_is_not_cut_short_by_the_end_of_other_nodes(pods_place, slow, machines, until, monkeypatch):
    """The other node fails as soon as its peer is gone; then a scheduler ends all nodes, but not one that leaves."""
    monkeypatch.setattr("chaoskit.environments.launch.multi_node_launch.KILL_WAIT", 0.1)
    with KubernetesEnvironment(replace(pods_place, nodes=Nodes(2, 2))) as env:
        env.launch(0, slow(3))
        both_arrive(env, until)
        env.evict_node("node1", replaced=True)
        machines.kubelet.kill_container(env.pods.now["node0"].uid)
        assert news(env, Ended).launch == 0
        found = env.evicted("node1")
        assert found["ended"] >= 3 and found["killed"] is None


@pytest.mark.launches
def test_a_budget_that_allows_no_disruption(pods_place, stub, api_server, connection, monkeypatch):
    namespace = pods_place.cluster.namespace
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"chaoskit.dev/role": "node"}}}
    body = {"metadata": {"name": "keep"}, "spec": spec}
    client.PolicyV1Api(connection.address.client).create_namespaced_pod_disruption_budget(namespace, body)
    with KubernetesEnvironment(pods_place) as env:
        monkeypatch.setattr(env.pods.connection, "patience", 1.0)
        env.launch(0, stub(0, 9))
        news(env, Arrived)
        said = r"cannot create eviction of Pod chaoskit-\S+ in \S+: Cannot evict .* The disruption budget keep needs 1"
        with pytest.raises(LookupError, match=said + ".*: have that PodDisruptionBudget leave out pods with the label"):
            env.evict_node("node0", replaced=True)
        assert len([call for call in api_server.calls if call.subresource == "eviction"]) > 1
        assert env.pods.exists("node0") and env.launcher_processes()


@pytest.mark.launches
def test_the_job_gets_its_notice_whoever_evicts_the_pod(pods_place, stub, slow, connection):
    namespace = pods_place.cluster.namespace
    with KubernetesEnvironment(pods_place) as env:
        env.launch(0, slow(0.5))
        news(env, Arrived)
        before = env.pods.now["node0"]
        client.CoreV1Api(connection.address.client).create_namespaced_pod_eviction(
            before.pod, namespace, {"metadata": {"name": before.pod, "namespace": namespace}}
        )
        # Its own exit code, and not that of a kill.
        assert news(env, Ended) == Ended(0, 7)
        env.launch(1, stub(0, 0))
        assert news(env, Ended) == Ended(1, 0)


def test_evictions_need_a_permission(cluster_place, api_server, tmp_path):
    assert offers("kubernetes", CanEvict) and not offers("docker", CanEvict)
    job = Job.from_command(["torchrun", "t.py", "--out", "{out}"], cluster=cluster_place, image="t:1")
    must_offer("kubernetes", [CanEvict], to="evict_node", job=job)
    api_server.add_user("nobody")
    file = str(api_server.kubeconfig(tmp_path, token="nobody"))
    other = replace(job, cluster=replace(cluster_place, kubeconfig=file))
    for can in (CanEvict, CanDrain):
        with pytest.raises(MissingCapability, match=r"add to a Role: .*: \[pods/eviction\], verbs: \[create\]"):
            must_offer("kubernetes", [can], to="it", job=other)


def errors(seed, *, answer_is_lost):
    """Errors at every third call; and the first answer to an eviction may be lost, although the pod was evicted."""
    chance, lost = seeded(seed, rate=0.3), iter([ApiFault("reset", applied=True)] * answer_is_lost)
    return lambda call: (call.subresource == "eviction" and next(lost, None)) or chance(call)


@pytest.mark.launches
@pytest.mark.slow
def test_whatever_goes_wrong_at_the_api_evictions_are_told_right(
    pods_place, stub, slow, api_server, evicted, monkeypatch
):
    monkeypatch.setattr("chaoskit.environments.kubernetes.retries._FIRST_WAIT", 0.01)
    happened = set()
    with KubernetesEnvironment(pods_place) as env:
        for seed in range(6):
            env.launch(2 * seed, slow(0.3))
            news(env, Arrived)
            before = env.pods.now["node0"].uid
            with api_server.faulty(errors(seed, answer_is_lost=seed % 2 == 1)):
                found, ends = evicted(env, "node0", replaced=False)
                happened |= {fault.kind for _, fault in api_server.injected}
            assert found["gone"] == before and 0.3 <= found["ended"] < 25 and found["killed"] is None
            assert (ends or [news(env, Ended)])[0].launch == 2 * seed
            env.launch(2 * seed + 1, stub(0, 0))
            assert news(env, Ended) == Ended(2 * seed + 1, 0)
    assert {"conflict", "too_many", "timeout", "reset"} <= happened
