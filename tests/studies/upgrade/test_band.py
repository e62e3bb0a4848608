"""The band: stated, or by how far the uninterrupted runs of both sides lie apart."""

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.errors import UsageError
from chaoskit.studies.upgrade.band import measure, stated
from tests import history_writer
from tests.history_writer import Writer


def reference(factor=1.0):
    def loss(rank, step):
        return (float.fromhex(history_writer.loss(rank, step)) * (factor if step == 7 else 1.0)).hex()

    return Reference.of([Writer(tell_loss=loss).control().history() for _ in range(2)])


def test_runs_that_are_equal_leave_no_room():
    band = measure(reference(), reference())
    assert band.value == 0.0 and "bitwise equal" in str(band) and not band.stated


def test_runs_that_differ_leave_twice_that():
    band = measure(reference(), reference(1.001))
    assert band.value == pytest.approx(2 * 0.001, rel=0.01)
    assert "2 times" in band.how and "at step 7" in band.how


def test_a_loss_that_is_no_number_measures_nothing():
    assert measure(reference(), reference(float("nan"))).value == 0.0


def test_without_two_runs_there_is_nothing_to_measure():
    assert measure(reference(), None).value == 0.0


def test_what_the_user_states_is_taken():
    assert (stated(0.01).value, str(stated(0.01))) == (0.01, "0.01 (set by --band)")
    for value in (-0.1, 1.0, float("nan")):
        with pytest.raises(UsageError, match="--band"):
            stated(value)
