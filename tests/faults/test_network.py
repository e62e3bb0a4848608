"""Faults of the network and of nodes: what they ask of an environment, when they count as observed, what they tell when
they are healed, and what they refuse."""

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import faults
from chaoskit.capabilities import CanDegrade, CanHideNames, CanLoseNodes, CanPartition
from chaoskit.errors import UsageError
from chaoskit.faults.fault import action_traits, check_nodes
from chaoskit.faults.node.nodes import resolve_nodes, show_nodes
from tests.fake_network import FakeNetwork


def strike(fault, net):
    """Apply it; what it tells comes back from JSON, as from the record."""
    return json.loads(json.dumps(fault.action.apply(net, 4)))


def everywhere(net, packets=20):
    for a in net.nodes():
        for b in net.nodes():
            if a != b:
                net.send(a, b, packets)


def test_the_fake_can_what_these_faults_need():
    for need in (CanPartition, CanDegrade, CanHideNames, CanLoseNodes):
        assert isinstance(FakeNetwork(), need)


CUTS = {
    "partition": (faults.partition(seconds=5), {"node0>node1", "node1>node0"}),
    "isolate": (faults.isolate(node=-1, seconds=5), {"node0>node2", "node1>node2", "node2>node0", "node2>node1"}),
    "one_way": (faults.one_way(source=2, target=0, seconds=5), {"node2>node0"}),
    "flap": (faults.flap(node=0), {"node0>node1", "node0>node2", "node1>node0", "node2>node0"}),
    "reset": (faults.reset(node=1), {"node0>node1", "node1>node0", "node1>node2", "node2>node1"}),
    "packet_loss": (faults.packet_loss(node=(0, 2), percent=10, seconds=5),
             {"node0>node1", "node1>node0", "node0>node2", "node2>node0", "node1>node2", "node2>node1"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", CUTS)
def test_a_cut_is_seen_when_packets_of_the_job_were_stopped_and_is_mended(kind):
    fault, ways = CUTS[kind]
    net, action = FakeNetwork(3), fault.action
    told = strike(fault, net)
    assert set(told["ways"]) == ways
    assert action.observed(net, told) is None, "nothing was stopped yet"
    everywhere(net)
    before = time.monotonic()
    seen = action.observed(net, told)
    assert before <= seen["since"] <= time.monotonic()
    each = 2 if kind == "packet_loss" else 20
    assert seen["lost"] == dict.fromkeys(ways, each)
    everywhere(net)
    healed = json.loads(json.dumps(action.heal(net, told)))
    assert healed["lost"] == dict.fromkeys(ways, 2 * each) and not net.cuts
    assert healed["reaches_again"] == dict.fromkeys(ways, True)


@pytest.mark.parametrize("kind", CUTS)
def test_packets_elsewhere_do_not_make_a_cut_seen(kind):
    fault, ways = CUTS[kind]
    net = FakeNetwork(3)
    told = strike(fault, net)
    for way in {"node0>node2", "node2>node1", "node0>node1", "node2>node0"} - ways:
        net.send(*way.split(">"), 99)
    assert fault.action.observed(net, told) is None


def test_how_it_is_cut():
    net = FakeNetwork(2)
    for fault in (faults.isolate(node=1, seconds=1), faults.reset(), faults.packet_loss(node=0, percent=5, seconds=1)):
        strike(fault, net)
    assert [(cut.how, cut.percent) for cut in net.cuts.values()] == [("drop", 100), ("reset", 100), ("drop", 5)]


@pytest.mark.parametrize("kind", ["partition", "isolate", "one_way"])
def test_what_still_comes_through_is_no_partition(kind):
    fault, ways = CUTS[kind]
    net = FakeNetwork(3)
    told = strike(fault, net)
    everywhere(net)
    net.leaky = True
    assert fault.action.observed(net, told) is None
    net.leaky = False
    reached = fault.action.observed(net, told)["reaches"]
    assert {way for way, through in reached.items() if not through} == ways
    assert [way for way, through in reached.items() if through] == (["node0>node2"] if kind == "one_way" else [])


def test_one_way_is_not_both_ways():
    net, fault = FakeNetwork(2), faults.one_way(seconds=1)
    told = strike(fault, net)
    net.send("node0", "node1")
    net.cut([("node1", "node0")])
    assert fault.action.observed(net, told) is None


def test_ways_to_a_node_that_is_gone_are_not_asked():
    net, fault = FakeNetwork(3), faults.isolate(node=1, seconds=1)
    told = strike(fault, net)
    everywhere(net)
    net.lose_node("node2")
    assert set(fault.action.observed(net, told)["reaches"]) == {"node0>node1", "node1>node0"}
    assert set(fault.action.heal(net, told)["reaches_again"]) == {"node0>node1", "node1>node0"}


@given(
    st.integers(2, 6).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, 3), min_size=n, max_size=n)))
)
def test_a_partition_cuts_every_way_between_two_groups_and_no_other(drawn):
    count, colours = drawn
    # Colour 3 is in no group.
    groups = [tuple(node for node in range(count) if colours[node] == colour) for colour in range(3)]
    groups = tuple(group for group in groups if group)
    if len(groups) < 2:
        with pytest.raises(UsageError, match="two or more"):
            faults.partition(groups=groups, seconds=1)
        return
    net, fault = FakeNetwork(count), faults.partition(groups=groups, seconds=1)
    check_nodes(fault, count)
    strike(fault, net)
    for a in range(count):
        for b in range(count):
            if a != b:
                apart = colours[a] != colours[b] and 3 not in (colours[a], colours[b])
                assert net.reaches(f"node{a}", f"node{b}") is not apart


def later(told, seconds):
    """As if it had begun that much earlier."""
    return {**told, "begun": told["begun"] - seconds}


def test_a_link_flaps_as_often_as_it_was_told():
    net, fault = FakeNetwork(2), faults.flap(node=1, times=2, down=10, up=20)
    action, told = fault.action, strike(fault, FakeNetwork(2))
    told = strike(fault, net)
    assert (action.heal_after, action.tick_every) == (60, 0.05)
    states = []
    for _ in range(12):
        everywhere(net, 1)
        states.append(bool(net.cuts))
        told = json.loads(json.dumps(action.tick(net, later(told, 5))))
    assert states == [True, True, False, False, False, False] * 2
    assert not net.cuts
    assert action.heal(net, told) == {
        "lost": {"node0>node1": 4, "node1>node0": 4},
        "downs": 2,
        "reaches_again": {"node0>node1": True, "node1>node0": True},
    }


def test_a_flap_is_seen_while_the_link_is_up_too():
    net, fault = FakeNetwork(2), faults.flap(node=1, down=10, up=10)
    told = strike(fault, net)
    net.send("node0", "node1")
    told = fault.action.tick(net, later(told, 15))
    assert not net.cuts and told["cut"] is None
    assert fault.action.observed(net, told)["lost"]["node0>node1"] == 1


def test_a_flapping_link_is_looked_after_often_enough():
    assert faults.flap(down=0.1, up=3).action.tick_every == pytest.approx(0.01)
    assert faults.flap(down=0.001, up=3).action.tick_every == 0.005


@pytest.mark.parametrize(
    ("fault", "wanted", "count"),
    [
        (faults.delay(node=1, ms=100, jitter=20, seconds=2), (("node1",), 0.1, 0.02, None, 0), "held"),
        (faults.bandwidth(node=(0, 1), kbit=80, seconds=2), (("node0", "node1"), 0, 0, 10_000, 0), "held"),
        (
            faults.packet_corruption(node="all", percent=5, seconds=2),
            (("node0", "node1", "node2"), 0, 0, None, 5),
            "corrupted",
        ),
    ],
)  # fmt: skip
def test_a_bad_link_is_seen_when_packets_were_struck_and_is_restored(fault, wanted, count):
    net, action = FakeNetwork(3), fault.action
    told = strike(fault, net)
    (slow,) = net.slow.values()
    assert (slow.nodes, slow.delay, slow.jitter, slow.rate, slow.corrupt) == wanted
    assert action.observed(net, told) is None
    if "node2" not in slow.nodes:
        net.send("node0", "node2", 0)
        assert action.observed(net, told) is None
    everywhere(net)
    seen = action.observed(net, told)
    assert seen["counts"]["packets"] and seen["counts"][count] and seen["since"] <= time.monotonic()
    assert action.heal(net, told)["counts"] == seen["counts"] and not net.slow


def test_packets_that_nothing_happened_to_are_no_evidence():
    net, fault = FakeNetwork(2), faults.packet_corruption(node=1, percent=1, seconds=2)
    told = strike(fault, net)
    net.send("node0", "node1", 10)
    assert net.degraded(told["degraded"])["packets"] == 10
    assert fault.action.observed(net, told) is None


def test_forgotten_names_are_asked_for_on_the_node():
    net, fault = FakeNetwork(3), faults.forget_names(node=(0, -1), seconds=2)
    told = strike(fault, net)
    assert fault.action.observed(net, told) == {
        "resolves": {"node0": {"node1": False, "node2": False}, "node2": {"node0": False, "node1": False}}
    }
    net.forgetful = {"node0"}
    assert fault.action.observed(net, told) is None
    net.up = []
    assert fault.action.observed(net, told) is None
    net.up = ["node0", "node1"]
    assert fault.action.heal(net, told) == {"resolves_again": {"node0": {"node1": True, "node2": True}}}
    assert not net.forgetful


def test_a_killed_node_is_seen_when_it_is_lost():
    net, fault = FakeNetwork(2), faults.kill_node(node=-1)
    before = time.monotonic()
    told = strike(fault, net)
    assert (told["node"], told["ended"], net.up) == ("node1", 3, ["node0"])
    assert before <= told["since"] <= time.monotonic()
    assert fault.action.observed(net, told) == {"gone": "node1"}
    net.gone.clear()
    assert fault.action.observed(net, told) is None
    assert (fault.action.heal_after, dict(fault.action.heal(net, told))) == (None, {})


def test_a_replaced_node_has_a_fresh_one_in_its_place():
    net, fault = FakeNetwork(2), faults.replace_node(node=0)
    told = strike(fault, net)
    assert net.up == ["node1", "node2"]
    assert fault.action.observed(net, told) == {"gone": "node0"}
    assert (str(fault), str(faults.kill_node(node=0))) == ("replace node 0", "kill node 0")


def test_a_paused_node_is_seen_frozen_and_goes_on():
    net, fault = FakeNetwork(2), faults.pause_node(node=1, seconds=3)
    told = strike(fault, net)
    assert fault.action.observed(net, told) == {"frozen": "node1"}
    assert fault.action.heal(net, told) == {"thawed": "node1", "frozen_still": False}
    assert fault.action.observed(net, told) is None


def test_a_job_grows_once_the_node_is_up():
    net, fault = FakeNetwork(1, most=2), faults.add_node()
    told = strike(fault, net)
    assert told == {"node": "node1", "before": ["node0"]}
    assert fault.action.observed(net, told) == {"nodes": ["node0", "node1"]}
    net.up.remove("node1")
    assert fault.action.observed(net, told) is None
    net.up.append("node1")
    with pytest.raises(LookupError, match="as many as it may"):
        fault.action.apply(net, 4)


def test_a_job_shrinks_once_the_node_is_down():
    net, fault = FakeNetwork(2), faults.remove_node()
    told = strike(fault, net)
    assert net.asked == ["node1"] and fault.action.observed(net, told) is None
    net.obey()
    assert fault.action.observed(net, told) == {"nodes": ["node0"]}
    net.up = []
    assert fault.action.observed(net, told) is None, "that the job is over is no shrinking"


@pytest.mark.parametrize("replaced", [True, False])
def test_an_eviction_is_observed_once_the_node_is_gone(replaced):
    net, fault = FakeNetwork(2), faults.evict_node(node=1, replaced=replaced)
    told = strike(fault, net)
    assert (told["node"], told["pod"], net.leaving) == ("node1", "pod-of-node1", {"node1": replaced})
    assert fault.action.observed(net, told) is None
    net.obey()
    assert fault.action.observed(net, told)["ended"] == 1.5
    # Whoever takes long over a save is not given up on before its grace is over.
    assert action_traits(fault.action).observe_within == math.inf


def test_a_drained_machine_is_observed_once_the_fresh_node_is_up():
    net, fault = FakeNetwork(2), faults.drain_node(node=1)
    told = strike(fault, net)
    assert (told["node"], told["pod"], net.leaving) == ("node1", "pod-of-node1", {"node1": True})
    assert fault.action.observed(net, told) is None
    net.obey()
    assert fault.action.observed(net, told) is None, "no node has taken its place yet"
    net.replace()
    seen = fault.action.observed(net, told)
    assert (seen["machine"], seen["fresh"]) == ("machine-of-node1", {"node": "node2", "machine": "other"})
    assert action_traits(fault.action).observe_within == math.inf


@pytest.mark.parametrize(
    "fault",
    [
        faults.partition(groups=((0,), (2,)), seconds=1),
        faults.isolate(node=2, seconds=1),
        faults.one_way(target=2, seconds=1),
        faults.flap(node=2),
        faults.reset(node=2),
        faults.packet_loss(node=(0, 2), percent=1, seconds=1),
        faults.delay(node=2, ms=1, seconds=1),
        faults.bandwidth(node=2, kbit=1, seconds=1),
        faults.packet_corruption(node=-3, percent=1, seconds=1),
        faults.forget_names(node=2, seconds=1),
        faults.kill_node(node=2),
        faults.pause_node(node=2, seconds=1),
        faults.replace_node(node=2),
        faults.remove_node(node=2),
        faults.evict_node(node=2),
        faults.drain_node(node=2),
    ],
    ids=lambda fault: fault.action.name,
)
def test_a_node_that_the_job_does_not_have(fault):
    node = next(node for node in fault.action.nodes_meant if node not in (0, 1))
    with pytest.raises(UsageError, match=rf"no node {node} in a job of 2 nodes; nodes are 0, 1"):
        check_nodes(fault, 2)
    check_nodes(fault, 3)
    with pytest.raises(LookupError, match=rf"node {node} is not up; up are node0, node1"):
        fault.action.apply(FakeNetwork(2), 4)
    with pytest.raises(UsageError, match="a job of 1 node"):
        check_nodes(fault, 1)


@pytest.mark.parametrize(
    "fault",
    [
        faults.isolate(node=0, seconds=1),
        faults.delay(node="all", ms=1, seconds=1),
        faults.forget_names(node=0, seconds=1),
    ],
)
def test_one_node_alone_has_no_network(fault):
    with pytest.raises(UsageError, match=r"no network between nodes; launch it on several: nnodes=2"):
        check_nodes(fault, 1)
    check_nodes(fault, 2)


def test_nobody_is_left_to_be_cut_off_from():
    with pytest.raises(LookupError, match="no other node"):
        faults.isolate(node=0, seconds=1).action.apply(FakeNetwork(1), 4)


def test_two_numbers_of_one_node():
    with pytest.raises(UsageError, match="node 1 and node -1 are the same in a job of 2 nodes"):
        check_nodes(faults.partition(groups=((1,), (-1,)), seconds=1), 2)
    check_nodes(faults.partition(groups=((1,), (-1,)), seconds=1), 3)


def test_faults_of_ranks_name_no_nodes():
    check_nodes(faults.kill(rank=7), 1)
    check_nodes(faults.kill_node(node=0), 1)
    check_nodes(faults.add_node(), 1)


def test_who_is_held():
    held = {name for name, make in made.items() if action_traits(make.action).holds}
    assert held == {"kill_node", "pause_node", "replace_node"}
    assert action_traits(faults.kill(rank=0).action) == action_traits(faults.noop().action)
    assert action_traits(faults.pause(rank=0, seconds=1).action).holds


made = {
    "partition": faults.partition(groups=((0, 1), (-1,)), seconds=2.5),
    "isolate": faults.isolate(seconds=1),
    "one_way": faults.one_way(source=-1, target=0, seconds=1),
    "flap": faults.flap(times=1, down=0.25),
    "reset": faults.reset(node=0, seconds=2),
    "packet_loss": faults.packet_loss(node="all", percent=0.5, seconds=1),
    "delay": faults.delay(node=(0, 2), ms=10, jitter=3, seconds=1),
    "bandwidth": faults.bandwidth(node=-2, kbit=64, seconds=1),
    "packet_corruption": faults.packet_corruption(node=(1,), percent=100, seconds=1),
    "forget_names": faults.forget_names(node="all", seconds=1),
    "kill_node": faults.kill_node(node=1),
    "pause_node": faults.pause_node(node=1, seconds=1),
    "replace_node": faults.replace_node(node=-1),
    "add_node": faults.add_node(),
    "remove_node": faults.remove_node(),
    "evict_node": faults.evict_node(node=-1, replaced=False),
    "drain_node": faults.drain_node(node=0),
}


@pytest.mark.parametrize("kind", made)
def test_a_fault_comes_back_from_json(kind):
    fault = made[kind].at_step(3)
    told = json.loads(json.dumps(fault.to_json()))
    assert told["action"]["kind"] == kind and faults.from_json(told) == fault
    assert hash(fault) == hash(faults.from_json(told))
    assert list(fault.action.victims(3)) == [0, 1, 2]


def test_who_takes_the_nodes_is_kept():
    ways = ({}, {"partition": "urgent"}, {"qos": "high"}, {"partition": "urgent", "qos": "high"})
    plain, preempted, outranked, both = (faults.suspend(**way).at_step(3) for way in ways)
    for fault in (plain, preempted, outranked, both):
        assert faults.from_json(json.loads(json.dumps(fault.to_json()))) == fault
    # What was stored before there were partitions reads as before.
    assert plain.to_json()["action"] == {"kind": "suspend"}
    assert str(preempted.action) == "have a job of partition urgent preempt the job"
    assert str(outranked.action) == "have a job of QOS high preempt the job"
    assert str(both.action) == "have a job of partition urgent and QOS high preempt the job"


def test_what_they_call_themselves():
    assert [str(fault) for fault in made.values()] == [
        "partition nodes 0, 1 from the last node for 2.5 s",
        "isolate node 1 for 1 s",
        "lose what the last node sends to node 0 for 1 s",
        "flap the link of node 1 1 time, 0.25 s down and 0.5 s up",
        "reset the connections of node 0",
        "lose 0.5% of the packets of all nodes for 1 s",
        "delay packets of nodes 0, 2 by 10 ms (give or take 3 ms) for 1 s",
        "limit node -2 to 64 kbit/s for 1 s",
        "corrupt 100% of the packets of node 1 for 1 s",
        "forget all names on all nodes for 1 s",
        "kill node 1",
        "pause node 1 for 1 s",
        "replace the last node",
        "add a node",
        "remove the last node",
        "evict the last node",
        "drain the machine of node 0",
    ]
    three = faults.partition(groups=((0,), (1,), (2,)), seconds=1)
    assert str(three) == "partition node 0, node 1 and node 2 from each other for 1 s"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: faults.partition(groups=((0, 1),), seconds=1), "two or more"),
        (lambda: faults.partition(groups=((0,), ()), seconds=1), "each with a node"),
        (lambda: faults.partition(groups=((0, 1), (1, 2)), seconds=1), "node 1 is in two"),
        (lambda: faults.partition(groups=((0, 0), (1,)), seconds=1), "twice"),
        (lambda: faults.partition(groups=(0, 1), seconds=1), "groups must be a tuple of groups"),
        (lambda: faults.partition(groups=("ab", "cd"), seconds=1), "groups"),
        (lambda: faults.partition(groups=None, seconds=1), "groups"),
        (lambda: faults.partition(groups=((0,), (1.5,)), seconds=1), "groups"),
        (lambda: faults.partition(seconds=0), "partition: seconds must be a positive number, not 0"),
        (lambda: faults.isolate(node=(0, 1), seconds=1), "isolate: node must be a whole number"),
        (lambda: faults.isolate(node="all", seconds=1), "isolate: node"),
        (lambda: faults.isolate(seconds=-1), "isolate: seconds"),
        (lambda: faults.isolate(seconds=True), "isolate: seconds"),
        (lambda: faults.isolate(seconds=float("inf")), "isolate: seconds"),
        (lambda: faults.one_way(source=1, target=1, seconds=1), "source and target must be two nodes"),
        (lambda: faults.one_way(source=None, seconds=1), "one_way: source"),
        (lambda: faults.one_way(target="x", seconds=1), "one_way: target"),
        (lambda: faults.one_way(seconds="1"), "one_way: seconds"),
        (lambda: faults.flap(node=True), "flap: node"),
        (lambda: faults.flap(times=0), "flap: times"),
        (lambda: faults.flap(times=1.5), "flap: times"),
        (lambda: faults.flap(down=0), "flap: down"),
        (lambda: faults.flap(up=float("nan")), "flap: up"),
        (lambda: faults.reset(node="x"), "reset: node"),
        (lambda: faults.reset(seconds=0), "reset: seconds"),
        (lambda: faults.packet_loss(node=(), percent=1, seconds=1), "packet_loss: node"),
        (lambda: faults.packet_loss(node=(1, 1), percent=1, seconds=1), "packet_loss: node .* twice"),
        (lambda: faults.packet_loss(node="some", percent=1, seconds=1), "packet_loss: node"),
        (lambda: faults.packet_loss(node=0, percent=0, seconds=1), "packet_loss: percent"),
        (lambda: faults.packet_loss(node=0, percent=100.1, seconds=1), "packet_loss: percent .* up to 100, not 100.1"),
        (lambda: faults.packet_loss(node=0, percent=1, seconds=0), "packet_loss: seconds"),
        (lambda: faults.delay(node=0.0, ms=1, seconds=1), "delay: node"),
        (lambda: faults.delay(node=0, ms=0, seconds=1), "delay: ms"),
        (lambda: faults.delay(node=0, ms=1, jitter=-1, seconds=1), "delay: jitter must be a number from 0"),
        (lambda: faults.delay(node=0, ms=1, jitter=2, seconds=1), "delay: jitter must be at most ms"),
        (lambda: faults.delay(node=0, ms=1, seconds=0), "delay: seconds"),
        (lambda: faults.bandwidth(node=None, kbit=1, seconds=1), "bandwidth: node"),
        (lambda: faults.bandwidth(node=0, kbit=-1, seconds=1), "bandwidth: kbit"),
        (lambda: faults.bandwidth(node=0, kbit=1, seconds=0), "bandwidth: seconds"),
        (lambda: faults.packet_corruption(node=[0], percent=1, seconds=1), "packet_corruption: node"),
        (lambda: faults.packet_corruption(node=0, percent=101, seconds=1), "packet_corruption: percent"),
        (lambda: faults.packet_corruption(node=0, percent=1, seconds=0), "packet_corruption: seconds"),
        (lambda: faults.forget_names(node="none", seconds=1), "forget_names: node"),
        (lambda: faults.forget_names(node=0, seconds=0), "forget_names: seconds"),
        (lambda: faults.kill_node(node="all"), "kill_node: node"),
        (lambda: faults.pause_node(node=None, seconds=1), "pause_node: node"),
        (lambda: faults.pause_node(node=0, seconds=0), "pause_node: seconds"),
        (lambda: faults.replace_node(node=(0,)), "replace_node: node"),
        (lambda: faults.remove_node(node=None), "remove_node: node"),
        (lambda: faults.evict_node(node="all"), "evict_node: node"),
        (lambda: faults.drain_node(node="0"), "drain_node: node"),
        (lambda: faults.suspend(partition="a b"), "suspend: partition must be the name of a partition"),
        (lambda: faults.suspend(partition=3), "suspend: partition must be the name of a partition"),
        (lambda: faults.suspend(qos="a,b"), "suspend: qos must be the name of a QOS, such as 'high'"),
        (lambda: faults.evict_node(node=0, replaced=1), "evict_node: replaced must be True or False"),
    ],
)
def test_arguments_are_validated(make, named):
    with pytest.raises(UsageError, match=named):
        make()


def test_names_of_nodes():
    known = ("node0", "node2", "node5")
    assert resolve_nodes("x", "all", known) == known
    assert resolve_nodes("x", (-1, 0), known) == ("node5", "node0")
    assert resolve_nodes("x", (2, -1), known) == ("node5",)
    with pytest.raises(LookupError, match="up are none"):
        resolve_nodes("x", 0, ())
    assert (show_nodes("all"), show_nodes(-1), show_nodes((1,)), show_nodes((0, 1))) == (
        "all nodes", "the last node", "node 1", "nodes 0, 1",
    )  # fmt: skip
