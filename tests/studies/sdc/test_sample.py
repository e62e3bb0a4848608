"""What is tried, in which order: by the seed alone, every cell in its turn; and what the rank is told."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.analysis.stats.wilson import wilson
from chaoskit.errors import UsageError
from chaoskit.protocol.targets import InjectionTarget
from chaoskit.studies.sdc import changes
from chaoskit.studies.sdc.sample import Sample
from chaoskit.studies.sdc.windows import MOST, windows

PLACES = tuple(InjectionTarget.parse(text) for text in ("parameter:*", "gradient:*", "collective:all_reduce:1"))


def sample(seed=0, steps=60):
    return Sample(PLACES, windows(steps, 10), 2, seed)


def test_the_same_seed_is_the_same_sample_and_another_is_not():
    first, again, other = (list(islice(sample(seed), 100)) for seed in (3, 3, 4))
    assert first == again
    assert [one.cell for one in first] != [one.cell for one in other]


def test_every_cell_has_its_turn_before_any_has_a_second():
    cells = sample().cells
    drawn = list(islice(sample(), 3 * len(cells)))
    for turn in range(3):
        part = drawn[turn * len(cells) : (turn + 1) * len(cells)]
        assert {one.cell for one in part} == set(cells)
    assert [one.number for one in drawn] == list(range(1, len(drawn) + 1))
    assert {one.rank for one in drawn} == {0, 1}


def test_from_turn_to_turn_a_cell_goes_through_the_windows():
    found = {}
    for one in islice(sample(), 5 * len(sample().cells)):
        found.setdefault(one.cell, []).append(one.window.opens)
    assert all(sorted(opens) == [1, 13, 25, 37, 49] for opens in found.values())


def test_windows_follow_one_another_and_end_before_the_job():
    found = windows(60, 10)
    assert [(w.opens, w.struck, w.closes) for w in found] == [
        (1, 2, 12), (13, 14, 24), (25, 26, 36), (37, 38, 48), (49, 50, 60),
    ]  # fmt: skip
    assert len(windows(12, 10)) == 1
    many = windows(100_000, 10)
    assert len(many) == MOST and len(set(many)) == MOST and many[-1].closes <= 100_000
    with pytest.raises(UsageError, match=r"--window 10: a window needs 12 steps .* has only 11"):
        windows(11, 10)


def test_what_strikes_in_the_middle_of_a_step_is_handed_over_in_the_step_before():
    drawn = list(islice(sample(), 24))
    assert {one.handed_over - one.window.struck for one in drawn if one.cell.place.kind == "parameter"} == {0}
    assert {one.handed_over - one.window.struck for one in drawn if one.cell.place.kind != "parameter"} == {-1}
    order = drawn[0].order("float32")
    assert order["do"] == "corrupt" and order["steps"] == 1 and order["into"] == drawn[0].cell.place.to_json()


@pytest.mark.parametrize("dtype", changes.FORMATS)
def test_the_groups_of_bits_are_all_bits_and_none_twice(dtype):
    exponent, mantissa = changes.FORMATS[dtype]
    found = [bit for group in changes.BITS for bit in changes.bits(group, dtype)]
    assert sorted(found) == list(range(1 + exponent + mantissa))


def test_bits_of_single_precision_are_where_ieee_has_them():
    assert list(changes.bits("sign", "float32")) == [31]
    assert list(changes.bits("exponent high", "float32")) == [27, 28, 29, 30]
    assert list(changes.bits("exponent low", "float32")) == [23, 24, 25, 26]
    assert changes.how("sign", "bfloat16", 0.9)["bit"] == 15
    assert changes.how("exponent high", "float32", 0.99)["bit"] == 30
    assert changes.how("scale 100", "float32", 0.1) == {"kind": "scale", "factor": 100.0}


@given(st.integers(0, 400).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_wilson_holds_the_share_and_stays_between_nothing_and_all(seen):
    hits, of = seen
    low, high = wilson(hits, of)
    assert 0.0 <= low <= high <= 1.0
    if of:
        assert low <= hits / of <= high


def test_wilson_as_it_is_in_the_books():
    low, high = wilson(10, 100)
    assert (round(low, 4), round(high, 4)) == (0.0552, 0.1744)
    low, high = wilson(0, 20)
    assert low == 0.0 and round(high, 4) == 0.1611
