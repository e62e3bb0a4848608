"""Where the ranks of an uninterrupted run wait: at what is known, or as the run that they follow shows it."""

import pytest

from chaoskit.engine.armed_fault import NEVER
from chaoskit.engine.windows import stops
from chaoskit.engine.windows.stops import FIRST, FollowedStops, KnownStops
from tests.engine.windows.test_window_watch import write
from tests.history_writer import Writer


def test_known_stops_are_met_once():
    known = KnownStops({11: 10, 21: 20})
    assert [known.next(least) for least in (0, 11, 12, 22)] == [11, 11, 21, NEVER]
    assert known.save_before(11) == 10 and known.save_before(10) is None and known.left
    known.met(11)
    assert known.next(0) == 21 and known.save_before(11) is None
    known.met(21)
    assert not known.left


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """The stops of a run that follows another one, and what writes that one's record up to a step."""
    monkeypatch.setattr(stops, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(stops, "SHARE", 0.0)
    (tmp_path / "events").mkdir()

    def comes_to(step, *, ends=False, **more):
        run = Writer(every=10, steps=1000).launch().live(until=step, **more)
        write(run.exit(0).end() if ends else run, tmp_path)

    return FollowedStops(tmp_path), comes_to


def test_a_rank_stops_where_the_other_run_is_not_known_to_be(followed):
    found, comes_to = followed
    assert found.left and found.next(1) == 1 and found.save_before(1) is None
    comes_to(25)
    # The saves after steps 10 and 20 are known, and whatever there is up to step 23.
    assert found.next(1) == 11 and found.save_before(11) == 10
    assert found.next(12) == 21 and found.next(22) == 25 and found.save_before(25) is None
    comes_to(45)
    assert found.next(25) == 31


def test_it_waits_for_each_save_once(followed):
    found, comes_to = followed
    comes_to(35)
    assert found.next(1) == 11
    found.met(11)
    assert found.next(1) == 21 and found.save_before(11) is None


def test_nothing_is_left_once_the_other_run_has_ended_and_all_was_met(followed):
    found, comes_to = followed
    comes_to(25, ends=True)
    assert found.next(1) == 11
    for position in (11, 21):
        assert found.left
        found.met(position)
    assert found.next(22) == NEVER and not found.left


def test_thinned_out_every_second_save_is_wanted_and_the_first_ones_still(followed):
    found, comes_to = followed
    comes_to(205)
    found.next(1)
    assert found.wanted() == set(range(10, 201, 10))
    assert found.thin() and found.wanted() == {*range(10, 10 * FIRST + 1, 10), *range(10, 201, 20)}
    while found.thin():
        pass
    assert found.wanted() == set(range(10, 10 * FIRST + 1, 10)) and found.next(100) == 205


def test_saves_where_experiments_strike_stay(followed):
    found, comes_to = followed
    comes_to(405, epochs=(0, 200, 400))
    found.next(1)
    while found.thin():
        pass
    # Before the middle of the first epochs, which is between two saves, and at the beginning of the second.
    assert {90, 200, 290} <= found.wanted() and not {150, 250} & found.wanted()
