"""Policies of retention: bytes, money and the worst losses, in closed form."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.errors import UsageError
from chaoskit.studies.forecast.retention import RetentionPolicy, retention_cost, usual_policies
from tests.studies.forecast.plans import HOUR, plan


def cost(policy: RetentionPolicy, **changed):
    """The cost of a policy for checkpoints of 1 TB each hour that block for nothing."""
    recovery = {"silent_hours": 4.0, **changed}
    one = plan(interval=HOUR, blocking=0.0, recovery=recovery)
    return retention_cost(policy, one, checkpoint_bytes=1e12, price=20.0)


def test_whole_checkpoints():
    one = cost(RetentionPolicy("three", 3))
    assert (one.held_bytes, one.month_usd) == (4e12, 80.0), "the next one is written before the oldest goes"
    assert one.written_bytes == 720e12
    assert (one.crash, one.damaged, one.reach_seconds) == (HOUR, 2 * HOUR, 2 * HOUR)
    assert one.out_of_reach == pytest.approx(math.exp(-2 / 4))


def test_deltas_write_less_and_lose_the_chain_when_its_first_one_is_damaged():
    one = cost(RetentionPolicy("deltas", 10, 10, 0.1))
    assert one.written_bytes == pytest.approx(720e12 * (1 + 9 * 0.1) / 10)
    assert one.held_bytes == pytest.approx(2 * 1.9e12), "two chains: the old one goes when the new one is whole"
    assert (one.crash, one.damaged) == (HOUR, 11 * HOUR)


def test_one_checkpoint_alone_loses_everything_when_it_is_damaged():
    one = cost(RetentionPolicy("one", 1))
    assert one.damaged == math.inf and one.reach_seconds == 0 and one.out_of_reach == 1.0


def test_without_silent_corruption_nothing_is_out_of_reach():
    assert cost(RetentionPolicy("one", 1), silent_hours=0.0).out_of_reach == 0


@given(keep=st.integers(1, 200), more=st.integers(1, 50))
def test_more_checkpoints_cost_more_and_reach_further(keep: int, more: int):
    few, many = cost(RetentionPolicy("few", keep)), cost(RetentionPolicy("many", keep + more))
    assert few.held_bytes < many.held_bytes and few.reach_seconds < many.reach_seconds
    assert few.out_of_reach >= many.out_of_reach and few.written_bytes == many.written_bytes


@pytest.mark.parametrize("keep", [1, 2, 3, 10, 50])
def test_the_policy_of_today_is_the_first_and_each_is_there_once(keep: int):
    found = list(usual_policies(keep, 0.3, 600.0))
    assert found[0].keep == keep and len({(each.keep, each.full_every) for each in found}) == len(found)
    assert any(each.full_every > 1 for each in found) and any(each.keep == 144 for each in found)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [({"keep": 0}, "keep"), ({"full_every": 0}, "full_every"), ({"delta_share": 1.5}, "delta_share"),
     ({"keep": 5, "full_every": 10}, "keep=5 is less than full_every=10")],
)  # fmt: skip
def test_a_policy_that_cannot_be_is_refused(changed: dict, sentence: str):
    with pytest.raises(UsageError, match=sentence):
        RetentionPolicy(**{"name": "x", "keep": 3, **changed})
