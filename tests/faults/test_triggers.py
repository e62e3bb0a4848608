"""Triggers: when they fire, and that they come back from JSON."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.errors import UsageError
from chaoskit.faults.triggers import (
    After,
    AtRandom,
    AtRelaunch,
    AtSave,
    AtStart,
    AtStep,
    BetweenWrites,
    Every,
    Moment,
    from_json,
)
from chaoskit.validation import LARGEST


@dataclass
class Plan:
    steps: int = 60
    saves: tuple[int, ...] = (20, 40, 60)
    calls: dict = field(default_factory=lambda: {0: 2, 1: 1})

    def save_calls(self, rank, position):
        return self.calls.get(rank, 0) if position in self.saves else 0

    def savers(self, position):
        return tuple(self.calls) if position in self.saves else ()


plan = Plan()
triggers = st.one_of(
    st.builds(AtStep, st.integers(1, 10**6)),
    st.builds(AtSave, st.integers(1, 100), st.booleans(), st.none() | st.integers(0, 1000)),
    st.builds(AtStart),
    st.builds(BetweenWrites, st.integers(1, 100), st.none() | st.integers(0, 1000), st.booleans()),
    st.builds(AtRelaunch),
    st.builds(After, st.floats(0, 1e6)),
    st.builds(AtRandom, st.integers(-LARGEST, LARGEST)),
    st.builds(Every, st.floats(0.1, 1e6), st.integers(1, 5), st.integers(5, 50)),
)


@given(triggers)
def test_a_trigger_comes_back_from_json(trigger):
    assert from_json(json.loads(json.dumps(trigger.to_json()))) == trigger
    assert str(trigger)


def test_a_step_is_about_to_be_taken():
    trigger = AtStep(25)
    assert trigger.fires(Moment("step", 1, 24), watched=[1], plan=plan)
    for moment in (Moment("step", 1, 25), Moment("step", 0, 24), Moment("save", 1, 24), Moment("step", 1, None)):
        assert not trigger.fires(moment, watched=[1], plan=plan)


def test_a_save_is_resolved_to_its_position():
    trigger = AtSave(2, True).resolve(plan)
    assert trigger == AtSave(2, True, 40)
    assert trigger.fires(Moment("save", 1, 40), watched=[0, 1], plan=plan)
    assert not trigger.fires(Moment("saved", 1, 40), watched=[0, 1], plan=plan)
    assert not trigger.fires(Moment("save", 1, 20), watched=[0, 1], plan=plan)
    # A save that the job does not make never comes.
    assert not AtSave(4, True).resolve(plan).fires(Moment("save", 1, 40), watched=[1], plan=plan)


def test_after_a_save_is_after_the_last_of_its_calls():
    trigger = AtSave(1, False, 20)
    assert not trigger.fires(Moment("saved", 0, 20, call=1), watched=[0], plan=plan)
    assert trigger.fires(Moment("saved", 0, 20, call=2), watched=[0], plan=plan)


def test_a_victim_that_never_saves_is_struck_when_the_others_do():
    assert AtSave(1, True, 20).fires(Moment("save", 0, 20), watched=[2], plan=plan)
    assert not AtSave(1, True, 20).fires(Moment("save", 0, 20), watched=[1], plan=plan)


def test_between_writes_is_after_the_first_of_a_rank_with_more_to_come():
    trigger = BetweenWrites(2).resolve(plan)
    assert trigger == BetweenWrites(2, 40) and str(trigger) == "between the writes of save 2 (step 40)"
    assert trigger.fires(Moment("saved", 0, 40, call=1), watched=[0, 1], plan=plan)
    for moment in (
        Moment("saved", 0, 40, call=2),  # its last
        Moment("saved", 1, 40, call=1),  # its only one
        Moment("saved", 0, 20, call=1),
        Moment("save", 0, 40, call=1),
        Moment("saved", 0, None, call=1),
    ):
        assert not trigger.fires(moment, watched=[0, 1], plan=plan)
    assert trigger.fires(Moment("saved", 1, 40, call=1), watched=[1], plan=plan)
    # A victim that never saves is struck between the writes of the others; a save that is not made never comes.
    assert trigger.fires(Moment("saved", 0, 40, call=1), watched=[2], plan=plan)
    assert not BetweenWrites(4).resolve(plan).fires(Moment("saved", 0, 40), watched=[0], plan=plan)


def test_between_writes_where_the_first_of_them_is_asynchronous():
    """Begun first, it returns last."""
    three = Plan(calls={0: 3})
    trigger = BetweenWrites(1).resolve(three)
    assert trigger.fires(Moment("saved", 0, 20, call=2), watched=[0], plan=three)
    assert not trigger.fires(Moment("saved", 0, 20, call=3), watched=[0], plan=three)


def test_between_the_writes_of_several_ranks():
    each = Plan(calls={0: 1, 1: 1})
    trigger = BetweenWrites(1).resolve(each)
    assert not trigger.single
    assert all(trigger.fires(Moment("saved", rank, 20), watched=[0, 1], plan=each) for rank in (0, 1))


def test_a_single_write_has_no_between():
    one = Plan(calls={0: 1})
    trigger = BetweenWrites(1).resolve(one)
    assert str(trigger) == "in the middle of save 1 (step 20), which is a single write"
    assert trigger.fires(Moment("save", 0, 20), watched=[0, 1], plan=one)
    assert not trigger.fires(Moment("saved", 0, 20), watched=[0, 1], plan=one)


def test_between_two_launches_nobody_is_there():
    assert AtRelaunch().resolve(plan).fires(Moment("relaunch"), watched=[0, 1], plan=plan)
    for other in (AtStart(), AtStep(1), AtSave(1, True, 20), BetweenWrites(1, 20), After(1), AtRandom(1)):
        assert not other.fires(Moment("relaunch"), watched=[0, 1], plan=plan)
    assert not AtRelaunch().fires(Moment("start", 0), watched=[0], plan=plan)


def test_the_start_is_that_of_a_watched_rank():
    assert AtStart().fires(Moment("start", 0), watched=[0], plan=plan)
    assert not AtStart().fires(Moment("start", 1), watched=[0], plan=plan)
    assert not AtStart().fires(Moment("step", 0, 0), watched=[0], plan=plan)


@given(st.integers(-LARGEST, LARGEST), st.integers(1, 1000))
def test_a_random_step_is_one_of_the_training_and_the_seeds_alone(seed, steps):
    drawn = AtRandom(seed).resolve(Plan(steps=steps))
    assert min(2, steps) <= drawn.step <= steps
    assert drawn == AtRandom(seed).resolve(Plan(steps=steps))


def test_a_clock_does_not_wait_for_moments():
    for trigger in (After(1.5), AtRandom(1)):
        assert not trigger.fires(Moment("step", 0, 3), watched=[0], plan=plan)
    assert After(1.5).resolve(plan) == After(1.5)
    assert (After(1.5).delay, AtStep(1).delay) == (1.5, None)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: AtStep(0), "at_step"),
        (lambda: AtStep(True), "at_step"),
        (lambda: AtSave(0, True), "during_save"),
        (lambda: AtSave(0.5, False), "after_save"),
        (lambda: BetweenWrites(0), "between_writes"),
        (lambda: BetweenWrites(True), "between_writes"),
        (lambda: After(-1), "after"),
        (lambda: After(float("inf")), "after"),
        (lambda: After(True), "after"),
        (lambda: AtRandom("seven"), "at_random"),
        (lambda: from_json({"kind": "at_noon"}), "at_noon"),
    ],
)
def test_arguments_are_validated(make, named):
    with pytest.raises(UsageError, match=named):
        make()
