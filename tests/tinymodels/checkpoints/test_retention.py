"""The newest, the last of each epoch, the best, and what they hang on; and the last valid one, whatever comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymodels.checkpoints.manifest import step_of
from tinymodels.checkpoints.store import Candidate, to_keep

SMALL = ("--samples", 150, "--epochs", 3, "--save-every", 4)  # 30 steps, ten an epoch


def kept(*steps, **more):
    return to_keep([Candidate(step=step) for step in steps], **more)


@pytest.mark.parametrize(("newest", "left"), [(1, {30}), (2, {20, 30}), (9, {10, 20, 30}), (0, {30})])
def test_the_newest_by_number_and_one_at_least(newest, left):
    assert kept(20, 10, 30, newest=newest) == left


def test_nothing_of_nothing():
    assert kept(newest=3, epochs=True, best=True) == set()


def test_the_last_of_each_epoch():
    found = [Candidate(step=step, epoch=(step - 1) // 10) for step in (4, 8, 10, 12, 20, 24, 28)]
    assert to_keep(found, newest=1, epochs=True) == {10, 20, 28}


def test_the_best_and_of_two_the_newer():
    losses = {4: 3.0, 8: 2.0, 12: None, 16: 2.0, 20: 2.5}
    found = [Candidate(step=step, loss=loss) for step, loss in losses.items()]
    assert to_keep(found, newest=1, best=True) == {16, 20}


def test_all_that_a_delta_hangs_on():
    bases = {5: None, 10: 5, 15: 10, 20: None, 25: 20}
    found = [Candidate(step=step, base=base) for step, base in bases.items()]
    assert to_keep(found, newest=1) == {20, 25}
    assert to_keep(found[:3], newest=1) == {5, 10, 15}


NOTES = st.tuples(*(st.none() | some for some in (st.integers(0, 3), st.floats(0, 9), st.integers(1, 99))))


@given(st.dictionaries(st.integers(1, 99), NOTES), st.integers(0, 5), st.booleans(), st.booleans())
def test_never_less_than_asked_for_and_never_a_delta_without_its_base(found, newest, epochs, best):
    records = [Candidate(step=step, epoch=epoch, loss=loss, base=base) for step, (epoch, loss, base) in found.items()]
    left = to_keep(records, newest=newest, epochs=epochs, best=best)
    assert left >= set(sorted(found)[-max(1, newest) :])
    for step in left & found.keys():
        base = found[step][2]
        assert base is None or base >= step or base in left


def published(out):
    return sorted(step_of(path) for path in (out / "checkpoints").iterdir())


def test_tiers_of_a_run(train, tmp_path):
    flags = ("--keep", 1, "--keep-epochs", "--keep-best", "--evaluate-every", 4)
    train(tmp_path, *SMALL, *flags, "--stop-after", 29)
    found = published(tmp_path)
    assert {8, 20, 28} <= set(found) <= {4, 8, 12, 16, 20, 24, 28} and len(found) <= 4


def test_a_refused_one_does_not_push_out_the_last_valid(train, tmp_path):
    train(tmp_path, *SMALL, "--keep", 2, "--stop-after", 9)
    assert published(tmp_path) == [4, 8]
    (tmp_path / "checkpoints" / "step-00000008" / "shared.pt").unlink()
    train(tmp_path, *SMALL[:-1], 5, "--keep", 2, "--stop-after", 11)  # goes past it without a save of step 8
    assert published(tmp_path) == [5, 10]
    (tmp_path / "checkpoints" / "step-00000010" / "shared.pt").unlink()
    train(tmp_path, *SMALL[:-1], 6, "--keep", 2, "--stop-after", 13)
    assert published(tmp_path) == [6, 12]


def test_the_last_valid_one_stays_while_refused_ones_are_newer(train, tmp_path):
    train(tmp_path, *SMALL, "--keep", 3, "--stop-after", 13)
    for step in (8, 12):
        (tmp_path / "checkpoints" / f"step-{step:08d}" / "shared.pt").unlink()
    train(tmp_path, *SMALL[:-1], 9, "--keep", 2, "--stop-after", 10)
    assert published(tmp_path) == [4, 9, 12]
