"""`Fault.every`: how many strikes a schedule has, whom they hit, and what is refused."""

from __future__ import annotations

import pytest

from chaoskit import faults
from chaoskit.errors import UsageError
from chaoskit.faults.triggers import Every


def test_one_strike_each_half_hour_for_six_hours():
    kills = faults.kill(rank=1).every("30m", during="6h")
    assert [kill.trigger for kill in kills] == [Every(1800.0, n, 12) for n in range(1, 13)]
    assert {kill.action.rank for kill in kills} == {1}
    assert str(kills[2]) == "kill rank 1 after 1800 s (strike 3 of 12)"


@pytest.mark.parametrize(
    ("interval", "during", "count"), [(0.1, 0.3, 3), ("90s", "1h", 40), (7, 20, 2), ("1.5h", "1d", 16), ("5", 5, 1)]
)
def test_as_many_as_fit(interval, during, count):
    assert len(faults.kill(rank=0).every(interval, during=during)) == count


def test_the_seed_draws_the_victims():
    def victims(seed):
        return [kill.action.rank for kill in faults.kill(rank=0).every(1, during=40, among=4, seed=seed)]

    assert victims(7) == victims(7) != victims(8)
    assert set(victims(7)) == {0, 1, 2, 3}
    nodes = faults.kill_node(node=0).every(1, during=20, among=2)
    assert {one.action.node for one in nodes} == {0, 1}
    notices = faults.preempt(cloud="aws", node=0, scale=0.005).every(1, during=20, among=2)
    assert {(one.action.node, one.action.rank) for one in notices} == {(0, None), (1, None)}


def test_a_strike_comes_back_from_a_stored_schedule():
    for kill in faults.kill(rank=0).every("3s", during="9s", among=4, seed=3):
        assert faults.from_json(kill.to_json()) == kill


@pytest.mark.parametrize(
    ("fault", "options", "said"),
    [
        (faults.kill(rank=0), {"interval": "2h", "during": "30m"}, "during=30m is shorter than the interval 2h"),
        (faults.kill(rank=0), {"interval": "often", "during": "1h"}, "interval must be a time such as '90s'"),
        (faults.kill(rank=0), {"interval": 0, "during": "1h"}, "interval must be a positive number"),
        (faults.kill(rank=0), {"interval": 1, "during": 2, "among": 0}, "among must be a whole number from 1"),
        (faults.kill(rank=0), {"interval": 1, "during": 2, "seed": "x"}, "seed must be a whole number"),
        (faults.kill(launcher=True), {"interval": 1, "during": 2, "among": 2}, "names no rank and no node"),
        (faults.noop(), {"interval": 1, "during": 2, "among": 2}, "names no rank and no node"),
        (faults.preempt(cloud="aws", node=0), {"interval": "2m", "during": "1h"}, "takes 120 s, and the interval must"),
    ],
)
def test_bad_input_is_named(fault, options, said):
    with pytest.raises(UsageError, match=said):
        fault.every(**options)
