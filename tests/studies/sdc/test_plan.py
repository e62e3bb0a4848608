"""Which corruptions share a launch, and what becomes of them when sharing proves to change something."""

import pytest

from chaoskit.errors import Undecided
from chaoskit.protocol.targets import InjectionTarget
from chaoskit.studies.sdc.plan import CONTROL_EVERY, FAILED_RESTORES, REFUSALS, REPEAT_EVERY, InjectionPlan
from chaoskit.studies.sdc.sample import Sample
from chaoskit.studies.sdc.trace import End
from chaoskit.studies.sdc.windows import windows
from tests.sdc_runs import EFFECT, Uninterrupted, done

REFERENCE = Uninterrupted()
PLACES = tuple(InjectionTarget.parse(text) for text in ("parameter:*", "gradient:*"))


def plan(most=None, places=PLACES, seed=0):
    return InjectionPlan(Sample(places, windows(60, 10), 2, seed), REFERENCE, most=most, tolerance=1e-4)


def launch(trials, **told):
    """All of them came to their end; who is not the first began in a state that was put back."""
    for place, trial in enumerate(trials):
        trial.alone = not any(before.injection is not None for before in trials[:place])
    return [done(trial, **({} if trial.injection is None else told)) for trial in trials]


def work(one, launches=1000, **told):
    """Go on until all is done; every launch that was made."""
    made = []
    while not one.over and len(made) < launches:
        trials = one.take()
        one.put(trials, launch(trials, **told))
        made.append(trials)
    return made


def test_a_launch_goes_through_the_windows_and_the_first_one_has_a_control():
    trials = plan().take()
    opens = [trial.window.opens for trial in trials]
    assert opens == sorted(set(opens)) and len(trials) > 1
    assert [trial.injection is None for trial in trials].index(True) == 1


def test_so_many_and_no_more_each_once():
    one = plan(most=60)
    made = work(one)
    assert sorted(one.results) == list(range(1, 61))
    tried = [trial.injection.number for trials in made for trial in trials if trial.injection is not None]
    assert len(tried) == 60 + one.repeated and one.launches == len(made)


def test_controls_and_repetitions_come_again_and_again():
    one = plan(most=200)
    work(one)
    shared = sum(not result.alone for result in one.results.values())
    assert one.controls >= shared // (CONTROL_EVERY + 5) and one.repeated >= shared // REPEAT_EVERY - 1
    assert not one.apart


def test_what_ends_the_job_comes_last_in_its_launch():
    one = plan(most=120)
    while not one.over:
        trials = one.take()
        came = []
        for trial in launch(trials):
            came.append(trial)
            if trial.injection is not None and trial.injection.cell.change == "nan":
                came[-1] = done(trial, until=trial.window.struck + 1, end=End(True, "not a number"))
                break
        one.put(trials, came)
        ends = [trial.injection is not None and trial.injection.cell.change == "nan" for trial in trials]
        assert not any(ends[:-1])
    assert sorted(one.results) == list(range(1, 121))


def test_what_a_launch_did_not_come_to_is_tried_again():
    one = plan(most=10)
    first = one.take()
    one.put(first, launch(first)[:1])
    assert len(one.results) == 1
    work(one)
    assert sorted(one.results) == list(range(1, 11))


def test_a_control_that_is_off_throws_away_what_rests_on_it_and_parts_all_others():
    one = plan(most=40)
    trials = one.take()
    came = launch(trials)
    (at,) = (place for place, trial in enumerate(trials) if trial.injection is None)
    came[at] = done(trials[at], change=lambda rank, step: {"model": "kept"} if step > 20 else {})
    one.put(trials, came)
    assert "a control without a corruption differed" in one.apart
    assert all(result.alone for result in one.results.values())
    made = work(one)
    assert {len(trials) for trials in made} == {1}
    assert sorted(one.results) == list(range(1, 41)) and all(result.alone for result in one.results.values())


def test_one_that_comes_to_something_else_alone_throws_away_all_that_shared_a_launch():
    one = plan(most=400)
    while not one.apart:
        trials = one.take()
        alone = len(trials) == 1 and trials[0].injection.number in one.results
        other = [done(t, losses={(0, t.window.closes): ("0x1p+1",)}) for t in trials]
        one.put(trials, other if alone else launch(trials))
        assert trials
    assert "in its own launch" in one.apart
    assert all(result.alone for result in one.results.values())


def test_who_begins_in_another_state_does_not_count_and_in_the_end_nobody_shares():
    one = plan(most=60)
    for _ in range(2 * FAILED_RESTORES):
        if one.apart:
            break
        trials = one.take()
        came = launch(trials)
        one.put(
            trials,
            [t if t.alone or t.injection is None else done(t, change=lambda r, s: {"model": "x"}) for t in came],
        )
    assert "not equal to the stored one" in one.apart
    assert all(result.alone for result in one.results.values())


def test_an_undisturbed_launch_that_is_another_one_decides_nothing():
    one = plan()
    trials = one.take()
    with pytest.raises(Undecided, match="step 1 of a launch without faults"):
        one.put(trials, [done(trials[0], change=lambda rank, step: {"model": "x"})])


def test_a_place_that_refuses_is_given_up_and_what_changed_nothing_does_not_count():
    one = plan(places=(*PLACES, InjectionTarget.parse("collective:all_gather:1")), most=100)
    while not one.over:
        trials = one.take()
        came = [
            done(t, effect={"refused": "the step made no all_gather"})
            if t.injection is not None and t.injection.cell.place.kind == "collective"
            else t
            for t in launch(trials)
        ]
        one.put(trials, came)
    assert one.closed == {"collective:all_gather:1": "the step made no all_gather"}
    assert REFUSALS <= len(one.refused) < 20
    assert {str(result.injection.cell.place) for result in one.results.values()} == {"parameter:*", "gradient:*"}


def test_where_all_is_refused_there_is_nothing_left():
    one = plan(places=PLACES[:1])
    work(one, effect={"refused": "no"}, launches=50)
    assert one.over and not one.results


def test_bits_are_those_of_the_type_that_the_numbers_have():
    one = plan(places=PLACES[:1], most=16)
    orders = []
    while not one.over:
        trials = one.take()
        orders += [(t.injection.cell.change, t.dtype) for t in trials if t.injection is not None]
        one.put(trials, launch(trials, effect={**EFFECT, "dtype": "bfloat16"}))
    assert len(one.results) == 16
    assert orders[-1][1] == "bfloat16" and ("sign", "bfloat16") in orders
