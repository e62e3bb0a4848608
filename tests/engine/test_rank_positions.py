"""The true step of a rank that has gone back to a checkpoint within its process."""

import pytest

from chaoskit.engine.rank_positions import RankPositions
from chaoskit.environments.environment import Arrived
from tests.history_writer import NAMES, Writer, truth


@pytest.fixture
def positions():
    return RankPositions(Writer().case().reference)


def at(n, *, state, batch=None, loaded=False, rank=0, pid=7):
    """A rank stops before step n + 1 with the state of a position, or one that the reference never had."""
    own = {name: truth(name, rank, state) if state is not None else "odd" for name in NAMES}
    if batch is not None:
        own["batch"] = truth("batch", rank, batch)
    record = {"n": n + 1, "losses": [], "state": own, **({"loaded": True} if loaded else {})}
    return Arrived(rank, 0, 0, pid, "step", n, record=record)


def test_a_rollback_takes_the_position_back(positions):
    found = [positions.of(at(n, state=n)) for n in (0, 23, 24)]
    found += [positions.of(at(25, state=20, loaded=True)), positions.of(at(26, state=21))]
    assert found == [0, 23, 24, 20, 21]
    # And once more.
    assert positions.of(at(30, state=20, batch=26, loaded=True)) == 20
    assert positions.of(Arrived(0, 0, 0, 7, "saved", 50)) == 40


def test_a_load_that_changes_nothing_leaves_it(positions):
    assert [positions.of(at(n, state=n, loaded=True)) for n in (0, 20, 25)] == [0, 20, 25]


def test_a_state_that_the_reference_never_had_leaves_it(positions):
    assert [positions.of(at(n, state=None if n else 0, loaded=True)) for n in (0, 25)] == [0, 25]


def test_without_a_load_an_update_that_was_left_out_leaves_it(positions):
    assert [positions.of(at(0, state=0)), positions.of(at(25, state=24, batch=25))] == [0, 25]


def test_each_rank_goes_back_for_itself(positions):
    for rank in (0, 1):
        positions.of(at(0, state=0, rank=rank, pid=7 + rank))
    assert positions.of(at(25, state=20, loaded=True, pid=7)) == 20
    assert positions.of(at(25, state=25, rank=1, pid=8)) == 25


def test_without_a_reference_only_the_first_process_of_a_rank_has_a_position():
    alone = RankPositions(None)
    assert alone.of(Arrived(0, 0, 0, 7, "step", 3)) == 3 and alone.of(Arrived(0, 1, 0, 8, "step", 3)) is None


def test_a_later_process_has_a_position_once_its_first_step_shows_it(positions):
    assert positions.of(at(0, state=0)) == 0
    assert positions.of(Arrived(0, 1, 0, 8, "start", 0)) is None
    assert [positions.of(at(n, state=20 + n, pid=8)) for n in (0, 3)] == [20, 23]
