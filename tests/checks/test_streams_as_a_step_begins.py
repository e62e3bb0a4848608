"""A batch of another shape draws other random numbers: the stream that differs after it was restored all the same."""

import pytest

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from tests.history_writer import Writer, truth

DRAWN, FIRST = "draw", "forward"


def begins(writer, n, streams, rank=0):
    """Say what the streams of a rank were as step `n` of the life just told began."""
    source = next(e.source for e in writer.events[::-1] if e.kind == "step" and e.source.startswith(f"rank-{rank}-"))
    writer.say("begin", source, n=n, streams=streams)


def case(own, wanted=None, *, off=("batch", "rng.torch"), ranks=1, first=None):
    """Resumed from 20: the components in `off` match nothing after the first step; `own` and `wanted` are the streams
    of rank 0 as that step began, in the run and in the reference; `first` those of the reference's first step."""
    controls = [Writer(ranks=ranks).control() for _ in range(2)]
    for control in controls:
        if wanted is not None:
            begins(control, 21, wanted)
        if first is not None:
            begins(control, 1, first)
    run = Writer(ranks=ranks).launch().live(until=25).fault().died()
    patch = {(rank, at, name): f"other{at}" for name in off for at in range(21, 61) for rank in range(ranks)}
    run.launch().live(base=20, ends=True, patch=patch)
    for rank in range(ranks):
        if own is not None:
            begins(run, 1, own, rank)
    return Case(run.exit(0).end().history(), Reference.of([one.history() for one in controls]))


def rng(case):
    return "rng-not-restored" in checks.state_restored()(case).codes


START = {"rng.torch": "as the checkpoint had it", "rng.python": "rng.python"}
OTHER = {**START, "rng.torch": "from the seed"}


@pytest.mark.parametrize("at", [DRAWN, FIRST])
def test_a_stream_that_began_right_is_no_cause(at):
    found = case({at: START}, {at: START})
    assert not rng(found)
    assert checks.state_restored()(found).codes and "rng-not-restored" not in checks.matches_reference()(found).codes


def test_one_point_is_enough_as_noise_of_another_shape_may_be_drawn_between():
    assert not rng(case({DRAWN: START, FIRST: OTHER}, {DRAWN: START, FIRST: START}))
    # A loader that runs forward to its place draws before the streams are put back.
    assert not rng(case({DRAWN: OTHER, FIRST: START}, {DRAWN: START, FIRST: START}))


def test_a_rank_that_saves_nothing_is_compared_with_the_step_before():
    left = {"rng.torch": truth("rng.torch", 0, 19)}
    assert not rng(case({FIRST: left}))
    assert not rng(case({FIRST: left}, {FIRST: START}))


@pytest.mark.parametrize("at", [DRAWN, FIRST])
def test_a_seed_that_is_set_again_may_look_like_the_step_before(at):
    """Only the shuffle of an epoch draws: in the second epoch, with the seed of the first, the stream is as the last
    step of the first epoch left it, and not as the second shuffle did."""
    left = {"rng.torch": truth("rng.torch", 0, 19)}
    assert rng(case({at: left}, {at: START}, first={at: left}))
    assert rng(case({at: left}, first={at: left}))
    assert not rng(case({at: left}, {at: START}, first={at: START}))
    assert not rng(case({at: left}, {at: left}, first={at: left}))


def test_a_stream_that_began_wrong_was_not_restored():
    assert rng(case({FIRST: OTHER}, {FIRST: START}))
    assert rng(case({FIRST: OTHER}))
    assert rng(case({DRAWN: START}, {FIRST: START}))  # at another point


def test_without_the_record_of_it_nothing_is_excused():
    assert rng(case(None)) and rng(case(None, {FIRST: START})) and rng(case({FIRST: {}}, {FIRST: START}))


def test_beside_the_right_batch_a_stream_that_differs_is_no_consequence_of_it():
    alone = case({FIRST: START}, {FIRST: START}, off=("rng.torch",))
    assert checks.state_restored()(alone).codes == ("rng-unused-not-restored",)


def test_each_stream_and_each_rank_by_itself():
    both = case({FIRST: START}, {FIRST: START}, off=("batch", "rng.torch", "rng.python"))
    assert not rng(both)
    one = case({FIRST: {**START, "rng.python": "lost"}}, {FIRST: START}, off=("batch", "rng.torch", "rng.python"))
    assert [f["component"] for f in checks.state_restored()(one).evidence["findings"]] == ["rng.python", "batch"]
    # Rank 1 began where no rank 1 of the reference is known to have been.
    assert {f["rank"] for f in checks.state_restored()(case({FIRST: START}, {FIRST: START}, ranks=2)).evidence[
        "findings"] if f["component"] == "rng.torch"} == {1}  # fmt: skip
