"""Ranks that wait for each other at some steps, while their `{out}` is kept."""

import pytest

from chaoskit.engine.armed_fault import NEVER
from chaoskit.engine.windows.out_keeper import OutKeeper
from chaoskit.engine.windows.stops import KnownStops
from chaoskit.environments.environment import Arrived
from chaoskit.faults.triggers import Moment


@pytest.fixture
def kept():
    return []


@pytest.fixture
def keeper(kept):
    return OutKeeper(
        KnownStops({11: 10, 21: 20}), lambda at, save: kept.append((at, save)) is None, world_size=2, patience=5.0
    )


def come(keeper, rank, position, kind="step"):
    return keeper.holds(Arrived(rank, 0, 0, 7, kind, position or 0), Moment(kind, rank, position))


def freed(keeper, now=0.0):
    return [arrived.rank for arrived, _ in keeper.free(now)]


def test_they_wait_until_all_are_there(keeper, kept):
    assert keeper.next_stop(0) == 11 and keeper.next_stop(11) == 11 and keeper.next_stop(12) == 21
    assert keeper.next_stop(22) == NEVER and keeper.timers() == []
    assert come(keeper, 1, 11) and not freed(keeper) and not kept and len(keeper.timers()) == 1
    assert come(keeper, 0, 11) and kept == [(11, 10)]
    assert freed(keeper) == [1, 0] and not freed(keeper) and keeper.timers() == []
    assert keeper.next_stop(0) == 21 and keeper.waits


@pytest.mark.parametrize(("position", "kind"), [(10, "step"), (11, "save"), (None, "step"), (0, "start")])
def test_nobody_waits_anywhere_else(keeper, position, kind):
    assert not come(keeper, 0, position, kind) and not freed(keeper)


def test_each_position_is_waited_for_once(keeper, kept):
    for rank in (0, 1):
        come(keeper, rank, 11)
    assert freed(keeper) == [0, 1] and not come(keeper, 0, 11)
    for rank in (0, 1):
        come(keeper, rank, 21)
    assert freed(keeper) == [0, 1] and kept == [(11, 10), (21, 20)] and not keeper.waits


def test_a_rank_that_never_comes_ends_the_keeping(keeper, kept):
    come(keeper, 1, 11)
    (until,) = keeper.timers()
    assert not freed(keeper, until - 0.1)
    assert freed(keeper, until) == [1] and not kept
    assert "only rank 1 came" in keeper.missed and not keeper.waits and keeper.next_stop(0) == NEVER
    assert not come(keeper, 0, 11) and keeper.timers() == []


def test_where_a_state_cannot_be_kept_no_other_is():
    keeper = OutKeeper(KnownStops({11: 10, 21: 20}), lambda at, save: False, world_size=1)
    assert come(keeper, 0, 11) and freed(keeper) == [0]
    assert not keeper.waits and not come(keeper, 0, 21) and keeper.missed == ""
