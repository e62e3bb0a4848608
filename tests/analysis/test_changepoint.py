"""Change points: a step is found where it is, and noise is not taken for one more often than is said."""

import math
import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.analysis.stats import changepoint
from chaoskit.analysis.stats.changepoint import SIDE, difference, fewest, likeness, step, steps
from tests.studies.nights.nights import correlated

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


def noise(count, seed=0, *, alike=0.0):
    return correlated(count, alike, random.Random(f"{seed} {count} {alike}"))


def with_step(values, at, by):
    return [value + by * (place >= at) for place, value in enumerate(values)]


@pytest.mark.parametrize(("at", "by"), [(10, 20.0), (15, 6.0), (24, -20.0)])
def test_a_step_is_found_where_it_is(at, by):
    found = step(with_step(noise(30), at, by))
    assert found.at == at and found.up == (by > 0) and found.chance < 1e-3


def test_both_steps_of_two_are_found():
    found = steps(with_step(with_step(noise(60), 20, 8.0), 40, -5.0), level=0.001)
    assert [(one.at, one.up) for one in found] == [(20, True), (40, False)]


def test_one_slow_night_and_three_are_no_step():
    for slow in ([29], [5, 12, 20], [27, 28, 29]):
        assert not steps([value + 100 * (at in slow) for at, value in enumerate(noise(30))], level=0.01)


def test_too_few_values_tell_nothing():
    assert step([1.0] * (2 * SIDE - 1)) is None
    assert steps([], level=0.01) == []
    assert step([1.0] * 20).chance == 1.0


@given(st.lists(NUMBERS, min_size=2 * SIDE, max_size=40), st.floats(0.1, 10))
def test_only_the_order_of_the_values_counts(values, factor):
    found = step(values)
    assert 0 < found.chance <= 1 and SIDE <= found.at <= len(values) - SIDE
    assert step([rank * factor for rank in changepoint._ranks(values)]) == found
    mirrored = step([-value for value in values])
    assert mirrored.chance == found.chance


@given(st.lists(NUMBERS, min_size=8, max_size=30), st.floats(0.01, 0.9))
def test_neighbours_alike_make_it_less_sure(values, alike):
    assert step(values, alike=alike).chance >= step(values).chance * (1 - 1e-9)


@pytest.mark.parametrize("before", [1, 2, 3])
def test_the_ranks_are_counted_out(before):
    """Against all orders of six values."""
    wins = [
        sum(early < late for early in order[:before] for late in order[before:])
        for order in permutations(range(6))
    ]
    pairs = before * (6 - before)
    for seen in range(pairs + 1):
        rare = sum(min(each, pairs - each) <= min(seen, pairs - seen) for each in wins) / len(wins)
        exact = 2 * changepoint._ways(before, 6 - before)[min(seen, pairs - seen)] / math.comb(6, before)
        assert exact == pytest.approx(rare) or 2 * seen == pairs


@pytest.mark.parametrize(("few", "many"), [(13, 60), (20, 45), (30, 31)])
def test_where_it_is_not_counted_out_it_is_on_the_safe_side(few, many):
    for rare in range(0, few * many // 4, 7):
        counted = 2 * changepoint._ways(few, many)[rare] / math.comb(few + many, few)
        assert changepoint._chance(few, many, few * many - rare) >= min(counted, 1.0) * 0.97 or counted > 0.05


def test_no_more_false_alarms_than_are_allowed():
    found = [step(noise(30, seed)).chance for seed in range(400)]
    for level in (0.2, 0.05, 0.01):
        assert sum(chance <= level for chance in found) <= level * len(found) + 2


def test_a_busy_week_is_no_step():
    """Uncorrected, noise of which neighbours are alike is one step after the other; corrected it hardly is."""
    series = [noise(60, seed, alike=0.6) for seed in range(100)]
    known = likeness(series)
    assert 0.4 < known < 0.75
    assert sum(step(one).chance < 0.01 for one in series) > 20
    assert sum(step(one, alike=known).chance < 0.01 for one in series) <= 3


def test_white_noise_and_steps_are_not_alike():
    series = [noise(30, seed) for seed in range(50)]
    assert likeness(series) < 0.1
    assert likeness(with_step(one, 15, 5.0) for one in series) < 0.2
    assert likeness([]) == likeness([[1.0]]) == 0.0


@pytest.mark.parametrize("level", [0.01, 0.001, 1e-5])
def test_the_fewest_values_are_the_fewest(level):
    count = fewest(level=level)
    for length, found in ((count, True), (count - 1, False)):
        assert (step(with_step([0.001 * at for at in range(length)], length // 2, 9.0)).chance <= level) is found


@given(st.lists(NUMBERS, min_size=4, max_size=12), st.lists(NUMBERS, min_size=4, max_size=12))
def test_a_difference_lies_in_its_interval(before, after):
    found = difference(before, after)
    assert found.low <= found.value <= found.high


def test_the_difference_of_a_step():
    values = with_step(noise(40), 20, 10.0)
    found = difference(values[:20], values[20:])
    assert found.low < 10 < found.high and found.high - found.low < 3
