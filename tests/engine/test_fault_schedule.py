"""The faults come in their order, each when its own moment or its time has come."""

from __future__ import annotations

import time

import pytest

from chaoskit.engine.fault_schedule import RETRY_EVERY, FaultSchedule
from chaoskit.environments.environment import Arrived
from chaoskit.faults import Fault
from chaoskit.faults.triggers import Every, Moment
from tests.engine.fake_faults import Record, after, at_step
from tests.history_writer import Writer

REFERENCE = Writer(ranks=1).case().reference


@pytest.fixture
def record():
    return Record()


def planned(record, *faults, reference=REFERENCE):
    return FaultSchedule(faults, env=None, reference=reference, writer=record, progress=record)


def before(step):
    return Moment("step", 0, step - 1)


def test_only_the_first_of_those_that_wait_is_due(record):
    schedule = planned(record, at_step(5), at_step(3))
    assert not schedule.is_due_at(before(3)) and schedule.is_due_at(before(5))
    first = schedule.apply_next(Arrived(0, 0, 0, 7, "step", 4))
    assert first is schedule.all[0] and schedule.waiting == [schedule.all[1]] and schedule.is_due_at(before(3))
    assert record.kinds == ["fault.requested", "fault.applied"] and record.events[0][1] == {"fault": 0, "at": 0}


def test_without_a_reference_no_step_is_known(record):
    assert not planned(record, at_step(5), reference=None).is_due_at(before(5))


def test_a_timer_starts_when_the_fault_is_armed(record):
    schedule = planned(record, after(7.0))
    begun = time.monotonic()
    due = schedule.due_time()
    assert begun + 7.0 <= due <= time.monotonic() + 7.0 and schedule.due_time() == due
    assert planned(record, at_step(5)).due_time() is None and planned(record).due_time() is None


def test_a_target_that_does_not_exist_is_missed_at_a_step_and_tried_again_by_a_timer(record):
    schedule = planned(record, at_step(5, missing=True))
    assert schedule.apply_next(None).applied_at is None and not schedule.waiting
    assert record.events[-1] == ("fault.missed", {"fault": 0, "evidence": {"missed": "nobody there"}})
    schedule = planned(record, after(0.0, missing=True))
    assert schedule.apply_next(None) is None and schedule.waiting
    assert schedule.due_time() - time.monotonic() == pytest.approx(RETRY_EVERY, abs=0.04)
    assert schedule.apply_next(None) is None and record.kinds.count("fault.requested") == 2


def test_a_job_does_not_wait_for_a_strike_of_a_schedule(record):
    """One that does nothing until then hangs."""
    strikes = after(7.0), *(Fault(after(7.0).action, Every(7.0, n, 2)) for n in (1, 2))
    schedule = planned(record, *strikes)
    assert schedule.is_awaited
    schedule.waiting.pop(0)
    assert schedule.due_time() is not None and not schedule.is_awaited
    assert not planned(record).is_awaited and not planned(record, at_step(5)).is_awaited


def test_the_plan_is_recorded(record):
    planned(record, at_step(5), at_step(6)).record_plan()
    assert [data["fault"] for kind, data in record.events if kind == "fault.planned"] == [0, 1]


def test_the_time_of_a_strike_begins_with_the_one_before(record):
    """However long it took until that one was observed: a notice takes its whole grace."""
    schedule = planned(record, *(Fault(after(7.0).action, Every(7.0, n, 2)) for n in (1, 2)))
    schedule.due_time()
    first = schedule.apply_next(None)
    first.applied_at -= 5.0
    assert schedule.due_time() == first.applied_at + 7.0
