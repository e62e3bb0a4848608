"""The statistics: exact where they can be counted out by hand, and right about as often as they say."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.analysis.stats.signed_rank import above, fewest, holm, shift

DIFFERENCES = st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=1, max_size=9, unique_by=abs).filter(
    lambda those: all(abs(each) > 1e-6 for each in those)
)


def by_flipping(differences):
    """The one-sided p-value, by flipping the sign of every difference in every way, on ranks."""
    order = sorted(range(len(differences)), key=lambda i: abs(differences[i]))
    ranks = {i: rank for rank, i in enumerate(order, start=1)}
    seen = sum(ranks[i] for i, each in enumerate(differences) if each > 0)
    flips = itertools.product((0, 1), repeat=len(differences))
    return np.mean(
        [sum(rank for rank, up in zip(ranks.values(), signs, strict=True) if up) >= seen for signs in flips]
    )


@given(DIFFERENCES)
def test_the_chance_is_that_of_flipping_all_signs(differences):
    assert above(differences) == pytest.approx(by_flipping(differences))


@given(DIFFERENCES, st.floats(-3, 3))
def test_the_higher_the_bound_the_likelier(differences, bound):
    assert above(differences, bound) <= above(differences, bound + 1)


@given(DIFFERENCES)
def test_equal_to_none_proves_nothing(differences):
    assert above([0.0] * len(differences)) == 1.0
    one = shift(differences)
    assert one.low <= one.value <= one.high and one.pairs == len(differences)


def test_the_interval_holds_what_the_test_does_not_reject():
    random.seed(3)
    differences = [random.gauss(0.2, 0.1) for _ in range(15)]
    one = shift(differences)
    assert 0.99 <= one.level < 1
    assert above(differences, one.low - 1e-9) <= 0.005 < above(differences, one.low + 1e-9)
    mirrored = [-each for each in differences]
    assert above(mirrored, -one.high - 1e-9) <= 0.005 < above(mirrored, -one.high + 1e-9)


@pytest.mark.parametrize(("pairs", "level"), [(1, 0.0), (2, 0.5), (3, 0.75), (7, 1 - 2 / 128)])
def test_few_pairs_give_their_whole_range_and_say_how_sure_that_is(pairs, level):
    one = shift([0.1 * i for i in range(pairs)])
    assert one.level == pytest.approx(level) and (one.low, one.high) == pytest.approx((0.0, 0.1 * (pairs - 1)))


def test_of_nothing_there_is_no_shift():
    assert shift([]) is None and above([]) == 1.0


def test_as_many_as_are_needed_can_be_enough_and_one_less_cannot():
    needed = fewest(alpha=0.01, tests=2)
    assert needed == 9
    assert 2 * above([1.0 + i for i in range(needed)]) <= 0.005 < 2 * above([1.0 + i for i in range(needed - 1)])


def test_holm():
    assert holm({"a": 0.004, "b": 0.009}, alpha=0.01) == {"a", "b"}
    assert holm({"a": 0.006, "b": 0.006}, alpha=0.01) == set()
    assert holm({"a": 0.004, "b": 0.02}, alpha=0.01) == {"a"}
    assert holm({}, alpha=0.01) == set()


def test_the_level_of_the_interval_is_kept_with_heavy_tails():
    draw = random.Random(5)
    missed = 0
    for _ in range(600):
        # One in ten hangs.
        one = shift(
            [draw.gauss(0.3, 0.1) + (draw.random() < 0.1) * draw.choice((-3, 3)) for _ in range(12)], alpha=0.1
        )
        missed += not one.low <= 0.3 <= one.high
    assert 0.05 < missed / 600 < 0.14


def test_hundreds_of_pairs_are_no_matter():
    draw = random.Random(7)
    differences = [draw.gauss(0.05, 0.2) for _ in range(300)]
    assert above(differences) < 1e-3 < above([each - 0.05 for each in differences])
