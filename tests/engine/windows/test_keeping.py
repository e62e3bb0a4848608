"""Where states are kept, and whether windows pay."""

from types import SimpleNamespace

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows import keeping
from chaoskit.engine.windows.keeping import Keeping, of_second_control, pays, training_seconds, why_nothing_to_keep
from chaoskit.errors import UsageError
from tests.analysis.windows.by_hand import reference
from tests.engine.windows.test_window_watch import write
from tests.history_writer import Writer

EQUAL = reference(Writer(every=10))


def test_short_jobs_are_run_whole_unless_somebody_asks(monkeypatch):
    seconds = training_seconds(EQUAL)
    assert seconds > 0
    for least, expected in ((seconds + 1, False), (seconds, True)):
        monkeypatch.setattr(keeping, "PAY_FROM", least)
        assert pays(EQUAL, wish="auto") is expected
        assert pays(EQUAL, wish="always") and not pays(EQUAL, wish="never")


def test_a_wish_that_nobody_knows():
    with pytest.raises(UsageError, match="windows: 'sometimes' is none of auto, always, never"):
        keeping.wish("sometimes")


def test_a_job_without_saves_or_with_few_steps_has_nothing_to_keep():
    assert why_nothing_to_keep(EQUAL) == ""
    assert "makes no save" in why_nothing_to_keep(Reference((Writer(every=100).control().history(),)))
    assert "12 steps only" in why_nothing_to_keep(Reference((Writer(every=5, steps=12).control().history(),)))


@pytest.fixture
def second(tmp_path):
    store = Store(tmp_path / "store")
    runs = [store.new_control("abc", number, job={}) for number in (0, 1)]
    write(Writer(every=10).control(), runs[0])
    return store, *runs


def test_the_second_control_keeps_what_the_first_saved(second):
    store, first, run_dir = second
    made = of_second_control(run_dir, first, wish="always", store=store)
    assert isinstance(made, Keeping) and made.keeper.waits
    assert made.why_none == "no rank stopped where a state was to be kept"
    assert [made.keeper.next_stop(least) for least in (1, 12, 22)] == [11, 21, 31]


@pytest.mark.parametrize("wish", ["never", "auto"])
def test_it_keeps_nothing_where_windows_are_not_wanted_or_do_not_pay(second, wish, monkeypatch):
    monkeypatch.setattr(keeping, "PAY_FROM", 1e6)
    store, first, run_dir = second
    assert of_second_control(run_dir, first, wish=wish, store=store) is None


def test_it_keeps_nothing_where_the_first_did_not_finish(second):
    store, first, run_dir = second
    write(Writer(every=10).launch().live(until=30).exit(1).end("gave-up"), first)
    assert of_second_control(run_dir, first, wish="always", store=store) is None


def test_too_little_disk_is_said_with_the_number(second):
    store, first, run_dir = second
    made = of_second_control(run_dir, first, wish="always", store=store)
    made.states.unkept = "the state at step 30 could not be kept: the states would take more than 0.1 GiB"
    told = []
    made.write(store, SimpleNamespace(phase=told.append))
    assert told == [f"0 states kept for windows: {made.states.unkept}"]
    assert made.why_none == made.states.unkept
