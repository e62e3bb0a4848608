"""What is refused, what is counted and what is told of faults between pods; the agents are played here."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.environments.kubernetes.api_kinds import DNS_CHAOS, NETWORK_CHAOS
from chaoskit.environments.kubernetes.chaos.chaos_pods import ChaosLimits
from chaoskit.environments.kubernetes.chaos.felt_network import FeltNetwork, PodNetwork, stopped
from chaoskit.environments.kubernetes.chaos.hidden_names import HiddenNames
from chaoskit.environments.kubernetes.chaos.pod_links import MOST_LINKS, PodLinks
from chaoskit.environments.kubernetes.chaos.refusals import FaultNotInjected
from chaoskit.environments.kubernetes.connection import ApiTarget
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.machine.tcp_connections import TcpConnection
from chaoskit.errors import ChaoskitError

ADDRESSES = {"node0": "10.1.0.1", "node1": "10.1.0.2", "node2": "10.1.0.3"}


def line(source, target, **counts):
    """A connection of the job."""
    known = {"state": 1, "unacknowledged": 0, "retries": 0, "probes": 0, "inode": 7, "retransmitted": 0, **counts}
    return TcpConnection(ADDRESSES[source], 40000, ADDRESSES[target], 29400, **known)


def network(*lines, **counters):
    return PodNetwork(lines, {name.replace("_", "."): value for name, value in counters.items()})


WAY, BACK, OTHER = ("node0", "node1"), ("node1", "node0"), ("node0", "node2")


def counted(ways, before, now, **options):
    return stopped(ways, ADDRESSES, before, now, all_of_them=options.get("all_of_them", True))


def test_each_way_has_its_own_count():
    before = {node: network() for node in ADDRESSES}
    now = {
        "node0": network(line("node0", "node1", retries=3), line("node0", "node2", probes=2)),
        "node1": network(line("node1", "node0", retries=5)),
    }
    assert counted([WAY, BACK, OTHER], before, now) == {WAY: 3, BACK: 5, OTHER: 2}
    # If only one way is closed, the answers to the other end do not come through.
    assert counted([WAY], before, now) == {WAY: 8}
    assert counted([WAY], now, now) == {WAY: 0} == counted([WAY], before, {})


def test_a_few_segments_are_sent_again_on_every_link():
    lines = line("node0", "node1")
    before = {"node0": network(lines, Tcp_OutSegs=1000, Tcp_RetransSegs=10), "node1": network()}

    def after(again, segments):
        one = network(replace(lines, retransmitted=again), Tcp_OutSegs=1000 + segments)
        return counted([WAY], before, {"node0": one, "node1": network()}, all_of_them=False)

    assert after(6, 100) == {WAY: 0} and after(10, 100) == {WAY: 10}  # 3, 3 for node1, and 3 times 1 of 100
    assert after(10, 1000) == {WAY: 0} and after(300, 1000) == {WAY: 300}


counts = st.integers(0, 50)


@given(counts, counts, counts)
def test_nothing_is_lost_without_what_is_lost(retries, probes, again):
    """Whatever a pod felt before: if it feels the same now, nothing was stopped."""
    felt = {node: network(line("node0", "node1", retries=retries, probes=probes, retransmitted=again)) for node in WAY}
    for all_of_them in (True, False):
        assert counted([WAY, BACK], felt, felt, all_of_them=all_of_them) == {WAY: 0, BACK: 0}


class PlayedPods:
    """Agents that say what a test wants."""

    container = "trainer"

    def __init__(self, objects, connection, nodes=tuple(ADDRESSES)):
        self.objects, self.connection, self.up = objects, connection, list(nodes)
        self.felt = {}
        self.gone = set()
        self.known = set(nodes)

    def nodes(self):
        return tuple(self.up)

    def selector(self, node):
        return RunSelector(self.objects.identity, "trainer", int(node.removeprefix("node")))

    def address(self, node):
        return f"10.1.0.{int(node.removeprefix('node')) + 1}"

    def names(self, node):
        return (f"{node}.names",)

    def ask(self, node, request, **given_):
        if node in self.gone:
            raise ChaoskitError(f"the pod of {node} has ended")
        if request == "network_felt":
            known = self.felt.get(node, PodNetwork())
            return {"connections": [asdict(one) for one in known.connections], "counters": dict(known.counters)}
        if request == "resolves":
            return given_["name"].removesuffix(".names") in self.known
        return {"round_trips": [0.001], "listen": None, "ping": True, "heard": True}[request]


@pytest.fixture
def pods(run, running, connection):
    for node in range(3):
        running(node)
    return PlayedPods(run, connection)


@pytest.fixture
def links(pods, mesh):
    made = PodLinks(pods, limits=ChaosLimits(60, 5, 2))
    yield made
    made.close()


def there(pods, kind=NETWORK_CHAOS):
    return pods.connection.page(ApiTarget(kind, pods.objects.identity.namespace), {})["items"]


def test_each_way_is_a_fault_with_a_target_and_an_end(links, pods, mesh):
    number = links.cut([WAY, OTHER], percent=100)
    specs = [one["spec"] for one in there(pods)]
    said = [(spec["action"], spec["direction"], spec["duration"]) for spec in specs]
    assert said == [("partition", "to", "60000ms")] * 2
    labels = [[side["selector"]["labelSelectors"] for side in (spec, spec["target"])] for spec in specs]
    assert {tuple(one["chaoskit.dev/node"] for one in both) for both in labels} == {("0", "1"), ("0", "2")}
    assert links.lost(number) == {"node0>node1": 0, "node0>node2": 0}
    pods.felt["node0"] = network(line("node0", "node1", retries=4))
    assert links.lost(number)["node0>node1"] == 4
    pods.gone.add("node0")
    assert links.lost(number)["node0>node1"] == 4, "what was felt stays when the pod is gone"
    links.mend(number)
    assert there(pods) == [] and links.faults.unclean == []


def test_a_share_is_a_loss_and_one_link_has_one_queue(links, pods):
    number = links.cut([WAY], percent=30)
    (one,) = there(pods)
    assert one["spec"]["action"] == "loss" and one["spec"]["loss"]["loss"] == "30"
    for twice in (
        lambda: links.cut([WAY], percent=5),
        lambda: links.degrade(["node1"], delay=0.1, jitter=0, rate=None, corrupt=0),
    ):
        with pytest.raises(LookupError, match=r"the link from node. to node. is lossy, slow or noisy already"):
            twice()
    closed = links.cut([WAY], percent=100)
    links.mend(number)
    links.degrade(["node1"], delay=0.1, jitter=0, rate=None, corrupt=0)
    links.mend(closed)


def test_a_degraded_node_has_one_fault_for_each_other(links, pods):
    links.degrade(["node1", "node0"], delay=0.1, jitter=0.01, rate=1000.4, corrupt=1)
    specs = [one["spec"] for one in there(pods)]
    assert len(specs) == 3 and {(spec["action"], spec["direction"]) for spec in specs} == {("netem", "both")}
    assert {spec["rate"]["rate"] for spec in specs} == {"1000bps"}
    pods.up = ["node0"]
    with pytest.raises(LookupError, match="no other node"):
        links.degrade(["node0"], delay=0.1, jitter=0, rate=None, corrupt=0)


def test_more_links_than_chaos_mesh_has_queues_for(run, connection, mesh):
    pods = PlayedPods(run, connection, [f"node{number}" for number in range(MOST_LINKS + 2)])
    links = PodLinks(pods, limits=ChaosLimits(60, 1, 1))
    with pytest.raises(LookupError, match="node0 would have 14: name fewer nodes"):
        links.degrade(["node0"], delay=0.1, jitter=0, rate=None, corrupt=0)
    assert there(pods) == []


def test_if_one_way_fails_none_is_left(links, pods, mesh):
    mesh.fails = lambda pod: "no ipset" if pod == "trainer-2" else None
    with pytest.raises(FaultNotInjected, match="trainer-2: no ipset"):
        links.cut([WAY, OTHER], percent=100)
    assert there(pods) == [] and len(mesh.backend.applied) == len(mesh.backend.undone) == 1


def test_what_is_not_taken_back_is_told(links, pods, mesh):
    number = links.cut([WAY], percent=100)
    mesh.stuck = "no iptables"
    with pytest.raises(ChaoskitError, match=r"was removed by force.*remove its pods \(trainer-0, trainer-1\)"):
        links.mend(number)
    assert [end.how for end in links.faults.unclean] == ["forced"]
    links.mend(number)


def test_unknown_numbers_are_no_errors(links):
    links.mend(99)
    links.restore(99)


def test_names_are_hidden_on_a_node(pods, mesh):
    hidden = HiddenNames(pods, limits=ChaosLimits(60, 5, 2))
    hidden.hide(["node0"])
    hidden.hide(["node0"])
    (one,) = there(pods, DNS_CHAOS)
    assert one["spec"]["patterns"] == ["node1.names", "node1.names.*", "node2.names", "node2.names.*"]
    assert one["spec"]["selector"]["labelSelectors"]["chaoskit.dev/node"] == "0"
    assert hidden.resolves("node0", "node1"), "it is asked, not believed"
    pods.known.clear()
    assert not hidden.resolves("node0", "node1") and not hidden.resolves("node7", "node1")
    hidden.show(["node0", "node1"])
    assert there(pods, DNS_CHAOS) == []


def test_a_pod_that_is_gone_is_not_reached(pods, mesh):
    felt = FeltNetwork(pods)
    assert felt.reaches(*WAY) and not felt.reaches("node0", "node9")
    pods.gone.add("node1")
    assert not felt.reaches(*WAY) and set(felt.of(ADDRESSES)) == {"node0", "node2"}
