"""`skew_clock`: what it asks of an environment, when it counts as observed, and what it refuses."""

import json

import pytest

from chaoskit import faults
from chaoskit.capabilities import CanSkewClock
from chaoskit.errors import UsageError
from chaoskit.faults.fault import check_nodes

FAULT = faults.skew_clock(node=-1, by=-600, seconds=60)


class Fake:
    """An environment whose ranks have recorded what a test says."""

    def __init__(self, ranks=None, others=None):
        self.told = {"ranks": ranks or {}, "others": others or {}}
        self.asked = []

    def skew_clock(self, node, *, by):
        self.asked.append((node, by))
        return 7

    def keep_clock(self, skew):
        self.asked.append(("keep", skew))

    def clock_skewed(self, skew):
        assert skew == 7
        return self.told

    def set_clock_right(self, skew):
        self.asked.append(("right", skew))


def test_it_comes_back_from_json():
    for fault in (FAULT, faults.skew_clock(node="all", by=1.5, seconds=2)):
        fault = fault.at_step(3)
        assert faults.from_json(json.loads(json.dumps(fault.to_json()))) == fault
    assert str(FAULT) == "set the clock of the last node back by 600 s"
    assert str(faults.skew_clock(node="all", by=1.5, seconds=2)) == "set the clock of all nodes forward by 1.5 s"


@pytest.mark.parametrize(("node", "asked"), [(-1, -1), (0, 0), ("all", None)])
def test_from_beginning_to_end(node, asked):
    action, env = faults.skew_clock(node=node, by=-600, seconds=60).action, Fake({1: -600.1}, {0: 0.0})
    assert action.needs == (CanSkewClock,) and action.heal_after == 60 and list(action.victims(2)) == [0, 1]
    applied = action.apply(env, 2)
    assert applied == {"skew": 7, "by": -600.0} and env.asked == [(asked, -600.0)]
    assert action.tick(env, applied) == applied
    assert action.observed(env, applied) == {"ranks": {1: -600.1}, "others": {0: 0.0}}
    assert action.heal(env, applied) == env.told
    assert env.asked[1:] == [("keep", 7), ("right", 7)]


@pytest.mark.parametrize(
    ("ranks", "others"),
    [
        ({}, {0: 0.0}),
        ({1: 0.0}, {0: 0.0}),
        ({1: 600.0}, {0: 0.0}),
        ({1: -599.0}, {0: 0.0}),
        ({1: -600.0, 2: 0.0}, {0: 0.0}),
        ({1: -600.0}, {0: -600.0}),
        ({1: -600.0}, {0: 0.5}),
    ],
    ids=["no-rank", "no-jump", "wrong-way", "wrong-size", "one-of-two", "others-too", "others-a-little"],
)
def test_what_is_not_just_that_is_not_observed(ranks, others):
    assert FAULT.action.observed(Fake(ranks, others), {"skew": 7}) is None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"node": "both"}, "node must be a whole number"),
        ({"node": (0, 1)}, "node must be a whole number"),
        ({"node": True}, "node must be a whole number"),
        ({"by": 0.5}, "by must be a second at least, forward or back, not 0.5"),
        ({"by": 0}, "by must be a second at least"),
        ({"by": -1e9}, "by must"),
        ({"by": "-10m"}, "by must"),
        ({"by": float("nan")}, "by must"),
        ({"seconds": 0}, "seconds must"),
    ],
)
def test_what_it_refuses(given, complaint):
    with pytest.raises(UsageError, match=complaint):
        faults.skew_clock(**{"node": 0, "by": -5, "seconds": 5, **given})


def test_a_node_that_the_job_does_not_have_is_refused():
    with pytest.raises(UsageError, match="there is no node 2"):
        check_nodes(faults.skew_clock(node=2, by=5, seconds=5), 2)
    check_nodes(FAULT, 2)
    check_nodes(faults.skew_clock(node="all", by=5, seconds=5), 1)
