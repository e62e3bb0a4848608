"""A fault is looked at until its effect is seen, its time is over, or it turns out that it cannot be seen."""

from __future__ import annotations

import pytest

from chaoskit.engine.armed_fault import ArmedFault
from chaoskit.engine.observation import LOOK_AT_LEAST_EVERY, OBSERVE_WITHIN, Observation
from tests.engine.fake_faults import Record, at_step


@pytest.fixture
def record():
    return Record()


@pytest.fixture
def released():
    return []


@pytest.fixture
def observe(record, released):
    def begin(**traits):
        found = Observation(None, record, release=released.append)
        found.pending = ArmedFault(0, at_step(5, **traits), applied_at=100.0, held_rank=3)
        return found

    return begin


def test_an_effect_is_recorded_and_the_held_rank_released(observe, record, released):
    found = observe(seen=[None, {"pid": 7}])
    found.look(100.0)
    assert found.pending is not None and not record.events and not released
    found.look(100.1)
    assert found.pending is None and released == [3]
    assert record.events == [("fault.observed", {"fault": 0, "evidence": {"pid": 7}})]


def test_it_is_given_up_on_when_its_time_is_over(observe, record, released):
    found = observe()
    found.look(100.0 + OBSERVE_WITHIN)
    assert found.pending is not None
    found.look(100.1 + OBSERVE_WITHIN)
    assert found.pending is None and released == [3] and not record.events
    longer = observe(heal_after=2 * OBSERVE_WITHIN)
    longer.look(100.1 + OBSERVE_WITHIN)
    assert longer.pending is not None


def test_one_that_turns_out_to_have_no_target_is_missed(observe, record, released):
    found = observe(seen=[LookupError("nobody there")])
    found.look(100.0)
    assert found.pending is None and released == [3] and record.kinds == ["fault.missed"]


def test_one_that_holds_no_rank_is_looked_at_less_and_less(observe):
    found = observe(holds=False)
    looks, now = [], 100.0
    while now < 109.0:
        found.look(now)
        looks.append(found.pending.look_at - now)
        now = found.pending.look_at
    assert looks[0] < 0.01 and looks == sorted(looks) and looks[-1] == pytest.approx(LOOK_AT_LEAST_EVERY)
    action = found.pending.fault.action
    asked = len(action.calls)
    found.look(now - 0.01)
    assert len(action.calls) == asked
    found.look(now - 0.01, early=True)
    assert len(action.calls) == asked + 1
    found.look(now - 0.01, last=True)
    assert found.pending is None


def test_while_victims_are_left_only_an_early_look_asks(observe):
    found = observe(seen=[{"pid": 7}])
    found.pending.remaining_victims = {1}
    found.look(100.5)
    assert found.pending.fault.action.calls == []
    found.look(100.5, early=True)
    assert found.pending is None


def test_between_launches_only_one_that_holds_is_waited_for(observe):
    held = observe(seen=[None, None, {"pid": 7}], observe_within=1e9)
    held.settle()
    assert held.pending is None
    free = observe(holds=False)
    free.settle()
    assert free.pending is not None
