"""`Verdict` and how several are merged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.errors import CODES
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, merge, passed

outcomes = st.lists(st.sampled_from(Outcome))


@given(outcomes, outcomes)
def test_order_and_grouping_do_not_matter(one, other):
    assert merge(one + other) is merge(other + one)
    if one and other:
        assert merge([merge(one), merge(other)]) is merge(one + other)


@given(outcomes)
def test_saying_it_twice_changes_nothing(told):
    assert merge(told + told) is merge(told)


@given(outcomes)
def test_a_fail_wins_and_nothing_at_all_is_no_pass(told):
    assert merge([*told, Outcome.FAIL]) is Outcome.FAIL
    assert (merge(told) is Outcome.PASS) == (bool(told) and set(told) == {Outcome.PASS})
    assert merge([]) is Outcome.INCONCLUSIVE


def test_codes_belong_to_what_did_not_pass():
    with pytest.raises(ValueError, match="no code"):
        Verdict("x", Outcome.PASS, "fine", ("hang",))
    with pytest.raises(ValueError, match="at least one"):
        Verdict("x", Outcome.FAIL, "bad")
    with pytest.raises(ValueError, match="sad"):
        failed("x", "bad", "sad")


@given(st.lists(st.sampled_from(sorted(CODES)), min_size=1, unique=True), st.text())
def test_a_verdict_comes_back_from_json(codes, sentence):
    for verdict in (
        passed("x", sentence, steps=3),
        failed("x", sentence, *codes, table=[{"rank": 1}]),
        inconclusive("x", sentence, *codes),
    ):
        assert Verdict.from_json(verdict.to_json()) == verdict
