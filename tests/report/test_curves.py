"""Curves show what the record says: nothing is smoothed, and thinning loses no outlier."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.report.svg.curves import Curve, curves, thin
from tests.history_writer import Writer, killed, loss

LOSSES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300)


@given(LOSSES, st.integers(1, 40), st.sets(st.integers(1, 300), max_size=5))
def test_thinning_keeps_ends_outliers_and_what_was_asked_for(means, wide, keep):
    steps = range(1, len(means) + 1)
    places = thin(steps, means, lambda step: step // wide, keep)
    assert places == sorted(set(places)) and all(0 <= place < len(means) for place in places)
    assert {0, len(means) - 1} <= set(places)
    assert {steps[place] for place in places} >= keep & set(steps)
    for column in {step // wide for step in steps}:
        whole = [means[step - 1] for step in steps if step // wide == column]
        drawn = [means[place] for place in places if steps[place] // wide == column]
        assert (min(drawn), max(drawn)) == (min(whole), max(whole))
        assert (drawn[0], drawn[-1]) == (whole[0], whole[-1])
        assert len(drawn) <= 4 + len(keep)


def test_where_there_is_room_every_step_is_drawn():
    assert thin(range(1, 61), [0.0] * 60, lambda step: step * 14) == list(range(60))


@given(st.lists(st.sampled_from([1.0, 2.0, math.nan, math.inf, -math.inf]), max_size=60))
def test_pieces_and_nonfinite_steps_are_all_there_is(means):
    curve = Curve(range(1, len(means) + 1), means, means, means)
    drawn = {step for start, end in curve.pieces() for step in range(start + 1, end + 1)}
    marked = {step for first, last, _ in curve.nonfinite() for step in range(first, last + 1)}
    assert drawn == {step for step, mean in enumerate(means, 1) if math.isfinite(mean)}
    assert marked == set(range(1, len(means) + 1)) - drawn
    for first, last, what in curve.nonfinite():
        assert all(math.isnan(means[step - 1]) is (what == "NaN") for step in range(first, last + 1))


def test_a_step_that_is_missing_breaks_the_line():
    curve = Curve([1, 2, 4, 5], [1.0] * 4, [1.0] * 4, [1.0] * 4)
    assert list(curve.pieces()) == [(0, 2), (2, 4)]


def test_what_was_kept_and_what_was_rolled_back():
    found = curves(killed(at=25, base=20).case())
    assert list(found.kept.steps) == list(range(1, 61))
    (branch,) = found.branches
    assert list(branch.steps) == [21, 22, 23, 24, 25] and branch.incarnation == 0
    each = [float.fromhex(loss(rank, 7)) for rank in (0, 1)]
    assert found.kept.means[6] == pytest.approx(sum(each) / 2)
    assert (found.kept.lows[6], found.kept.highs[6]) == (min(each), max(each))
    assert found.reference is not None and list(found.reference.means) == list(found.kept.means)
    assert not found.telling


def test_the_first_step_that_differs_is_always_drawn():
    found = curves(killed(off={"optimizer": 0}).case())
    assert 21 in found.telling


def test_a_step_that_only_some_ranks_took_would_look_like_another_loss():
    run = Writer().launch().live(until=25)
    run.say("step", run._source(0), n=26, losses=[loss(0, 26)], state={})
    found = curves(run.fault().died().launch().live(base=20, ends=True).exit(0).end().case())
    assert list(found.branches[0].steps) == [21, 22, 23, 24, 25]


def test_but_not_a_number_is_shown_whoever_had_it():
    run = Writer().launch().live(until=25)
    run.say("step", run._source(0), n=26, losses=["nan"], state={})
    found = curves(run.fault().died().launch().live(base=20, ends=True).exit(0).end().case())
    assert list(found.branches[0].nonfinite()) == [(26, 26, "NaN")]


def test_backward_passes_of_one_step_are_added():
    run = Writer(steps=3, tell_loss=lambda rank, step: f"{(1.0).hex()} {(2.0).hex()}")
    assert list(curves(run.launch().live(ends=True).exit(0).end().case()).kept.means) == [3.0] * 3


def test_losses_that_are_no_numbers_are_no_points():
    run = Writer(steps=3, tell_loss=lambda rank, step: "tensor:abc")
    found = curves(run.launch().live(ends=True).exit(0).end().case())
    assert not found.kept.steps and not found.kept.scalar


def test_a_sum_too_large_for_a_number_is_no_infinite_loss():
    run = Writer(steps=3, tell_loss=lambda rank, step: (1.7e308).hex())
    found = curves(run.launch().live(ends=True).exit(0).end().case())
    assert list(found.kept.nonfinite()) == [] and found.kept.means[0] == pytest.approx(1.7e308)


def test_without_a_reference_and_without_steps():
    run = Writer().launch().exit(1).end("gave-up")
    found = curves(run.case())
    assert not found.kept.steps and found.reference is not None and found.branches == ()
