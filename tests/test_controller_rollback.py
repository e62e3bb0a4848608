"""The controller knows at which true step a rank is that has gone back to a checkpoint in its process."""

import pytest

from chaoskit import Job
from chaoskit.controller import Controller
from chaoskit.environments.environment import Arrived
from chaoskit.events import EventWriter
from chaoskit.progress import quiet
from tests.history_writer import NAMES, Writer, truth


@pytest.fixture
def controller(tmp_path):
    writer = EventWriter(tmp_path / "harness.jsonl")
    yield Controller(
        env=None,
        job=Job.from_command(("true",)),
        out=tmp_path,
        faults=(),
        reference=Writer().case().reference,
        writer=writer,
        deadline=60,
        progress=quiet,
    )
    writer.close()


def at(n, *, state, batch=None, loaded=False, rank=0, pid=7):
    """A rank stops before step n + 1 with the state of a position, or one that the reference never had."""
    own = {name: truth(name, rank, state) if state is not None else "odd" for name in NAMES}
    if batch is not None:
        own["batch"] = truth("batch", rank, batch)
    record = {"n": n + 1, "losses": [], "state": own, **({"loaded": True} if loaded else {})}
    return Arrived(rank, 0, 0, pid, "step", n, record=record)


def test_a_rollback_takes_the_position_back(controller):
    positions = [controller._position(at(n, state=n)) for n in (0, 23, 24)]
    positions += [controller._position(at(25, state=20, loaded=True)), controller._position(at(26, state=21))]
    assert positions == [0, 23, 24, 20, 21]
    # And once more.
    assert controller._position(at(30, state=20, batch=26, loaded=True)) == 20
    assert controller._position(Arrived(0, 0, 0, 7, "saved", 50)) == 40


def test_a_load_that_changes_nothing_leaves_it(controller):
    assert [controller._position(at(n, state=n, loaded=True)) for n in (0, 20, 25)] == [0, 20, 25]


def test_a_state_that_the_reference_never_had_leaves_it(controller):
    assert [controller._position(at(n, state=None if n else 0, loaded=True)) for n in (0, 25)] == [0, 25]


def test_without_a_load_an_update_that_was_left_out_leaves_it(controller):
    assert [controller._position(at(0, state=0)), controller._position(at(25, state=24, batch=25))] == [0, 25]


def test_each_rank_goes_back_for_itself(controller):
    for rank in (0, 1):
        controller._position(at(0, state=0, rank=rank, pid=7 + rank))
    assert controller._position(at(25, state=20, loaded=True, pid=7)) == 20
    assert controller._position(at(25, state=25, rank=1, pid=8)) == 25
