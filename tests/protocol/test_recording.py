"""At which steps a rank records its whole state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.protocol.recording import BURST, VARIABLE, Recording


def recorded(every, steps, *, saves=(), loads=()):
    """The numbers of the steps that a process records whole; it saves, or loads, after those steps."""
    recording, found = Recording(every), set()
    for n in range(1, steps + 1):
        if recording.whole(n):
            found.add(n)
        if n in saves or n in loads:
            recording.begins_anew(n)
    return found


def test_every_step_is_recorded_unless_told_otherwise():
    assert recorded(1, 50) == set(range(1, 51))
    assert Recording.told({}).every == 1
    assert Recording.told({VARIABLE: "10"}).every == 10


@pytest.mark.parametrize("text", ["", "x", "-3", "0", "1.5", " 4"])
def test_what_is_no_number_of_steps_records_every_one(text):
    assert Recording.told({VARIABLE: text}).every == 1


def test_an_elastic_job_records_every_step():
    assert Recording.told({VARIABLE: "10", "CHAOSKIT_ELASTIC": "1"}).every == 1


def test_the_steps_of_a_long_run():
    assert sorted(recorded(10, 45, saves=[30])) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 20, *range(30, 39), 40]


every = st.integers(min_value=1, max_value=200)
moments = st.sets(st.integers(min_value=1, max_value=400), max_size=8)


@given(every=every, saves=moments, loads=moments, data=st.data())
def test_a_resume_and_the_run_before_it_have_the_first_step_after_a_save_in_common(every, saves, loads, data):
    saves = saves or {400}
    save = data.draw(st.sampled_from(sorted(saves)))
    before = recorded(every, 500, saves=saves, loads=loads)
    # The resumed process counts from 1 again, wherever the job has saved.
    after = {save + n for n in recorded(every, 500 - save, saves={at - save for at in saves if at > save})}
    assert set(range(save + 1, min(save + BURST, 500) + 1)) <= before & after


@given(every=every, own=moments, others=moments, count=st.integers(min_value=1, max_value=500))
def test_ranks_of_which_only_some_save_have_steps_in_common(every, own, others, count):
    one, other = recorded(every, count, saves=own), recorded(every, count, saves=others)
    assert one & other >= {n for n in range(1, count + 1) if n <= BURST or n % every == 0}


@given(every=every, saves=moments, count=st.integers(min_value=1, max_value=500))
def test_no_more_than_n_steps_lie_between_two_that_are_recorded(every, saves, count):
    found = sorted(recorded(every, count, saves=saves))
    assert all(b - a <= every for a, b in zip([0, *found], [*found, min(count + 1, found[-1] + every)], strict=True))
