"""What lasts is driven until it is healed, and healed when its time, its step or its launch has come."""

from __future__ import annotations

import pytest

from chaoskit.engine.armed_fault import ArmedFault
from chaoskit.engine.healing import Healing
from chaoskit.engine.observation import Observation
from tests.engine.fake_faults import Record, at_step


@pytest.fixture
def record():
    return Record()


@pytest.fixture
def healing(record):
    observation = Observation(None, record, release=lambda rank: None)
    return Healing(None, record, progress=record, observation=observation)


def add(healing, *, launch=0, **traits):
    index = len(healing.faults)
    armed = ArmedFault(index, at_step(5, name=f"fake{index}", **traits), applied_at=100.0)
    healing.add(armed, launch=launch)
    return armed


def healed(record):
    return [data["evidence"]["healed"] for kind, data in record.events if kind == "fault.healed"]


def test_each_is_healed_in_its_own_time(healing, record):
    for traits in ({"heal_after": 2.0}, {"heal_step": 9}, {"heal_launches": 1}):
        add(healing, launch=1, **traits)
    healing.heal_by_time(101.9)
    healing.heal_by_step(8)
    healing.heal_by_launch(1)
    assert not healed(record)
    healing.heal_by_step(9)
    healing.heal_by_launch(2)
    healing.heal_by_time(102.0)
    assert healed(record) == ["fake1", "fake2", "fake0"] and not healing.faults


def test_what_needs_no_healing_is_not_kept(healing, record):
    add(healing)
    assert not healing.faults and not healing.timers()


def test_the_newest_is_healed_first(healing, record):
    for _ in range(3):
        add(healing, heal_after=2.0)
    healing.heal_all()
    assert healed(record) == ["fake2", "fake1", "fake0"]


def test_one_that_is_still_to_be_observed_is_looked_at_once_more(healing, record):
    armed = add(healing, heal_after=2.0, seen=[{"lost": 1}])
    healing._observation.pending = armed
    healing.heal_all()
    assert record.kinds == ["fault.observed", "fault.healed"] and healing._observation.pending is None


def test_it_is_driven_at_its_pace(healing):
    armed = add(healing, heal_after=9.0, tick_every=0.5)
    assert healing.timers() == [109.0, 100.5]
    for now in (100.4, 100.5, 100.9, 101.0):
        healing.tick(now)
    assert armed.evidence == {"ticks": 2} and armed.tick_at == 101.5
