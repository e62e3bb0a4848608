"""Where states are kept, and whether windows pay."""

import os
from types import SimpleNamespace

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows import keeping, kept_outs
from chaoskit.engine.windows.keeping import Keeping, of_second_control, pays, training_seconds, why_nothing_to_keep
from chaoskit.environments.environment import Arrived
from chaoskit.errors import UsageError
from chaoskit.faults.triggers import Moment
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


def beside(second, monkeypatch, *, until, most=96):
    """Keeps states beside a run that came to step `until`; returns it, and what lets all ranks wait at a step."""
    store, first, run_dir = second
    monkeypatch.setattr(keeping, "MOST", most)
    write(Writer(every=10, steps=600).launch().live(until=until), first)
    made = Keeping.beside(run_dir, first, store=store)
    (run_dir / "out").mkdir(exist_ok=True)

    def wait(position):
        assert made.keeper.next_stop(position) >= position
        for old in (run_dir / "out").glob("step-*.pt"):
            old.unlink()
        (run_dir / "out" / f"step-{position}.pt").write_text("x" * 100)
        for rank in (0, 1):
            made.keeper.holds(Arrived(rank, 0, 0, 7, "step", position), Moment("step", rank, position))
        list(made.keeper.free(0.0))

    return made, wait


def kept(made):
    return [state.save for state in made.states.states]


def test_beside_the_first_it_keeps_what_the_first_has_saved_by_then(second, monkeypatch):
    made, wait = beside(second, monkeypatch, until=45)
    assert [made.keeper.next_stop(least) for least in (1, 12, 42)] == [11, 21, 45]
    wait(11)
    wait(25)
    assert kept(made) == [10] and made.keeper.waits


def test_too_many_states_are_thinned_out(second, monkeypatch):
    made, wait = beside(second, monkeypatch, until=305, most=12)
    while (at := made.keeper.next_stop(1)) < 302:
        wait(at)
    assert len(kept(made)) <= 12 and kept(made)[:6] == [10, 20, 30, 40, 50, 60]
    assert kept(made)[6:] == list(range(90, 300, 40)) and made.why_none == ""


def test_states_for_which_there_is_no_room_are_thinned_out(second, monkeypatch):
    monkeypatch.setattr(kept_outs, "MOST", 1500)
    made, wait = beside(second, monkeypatch, until=305)
    while (at := made.keeper.next_stop(1)) < 302:
        wait(at)
    assert kept(made)[:6] == [10, 20, 30, 40, 50, 60] and kept(made)[-1] > 60 and not made.states.unkept


def test_a_state_that_cannot_be_copied_ends_the_keeping_beside(second, monkeypatch):
    made, wait = beside(second, monkeypatch, until=305)
    wait(11)
    os.mkfifo(second[2] / "out" / "pipe")
    wait(21)
    assert kept(made) == [10] and "neither a file nor a directory" in made.states.unkept and not made.keeper.waits
