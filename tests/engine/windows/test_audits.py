"""Experiments that are trained on behind their windows, and what both verdicts say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import checks
from chaoskit.analysis.case import Case
from chaoskit.analysis.windows.convergence import converged
from chaoskit.checks import judge
from chaoskit.engine.windows.audits import FEWEST, OF, drawn, why_wrong
from tests.analysis.windows.by_hand import killed, reference

CHECKS = (checks.completed(), checks.matches_reference(), checks.state_restored(), checks.same_data())


@given(st.sets(st.text(min_size=1), max_size=80), st.integers(0, 99))
def test_as_many_are_drawn_as_are_said(names, seed):
    found = drawn(sorted(names), seed=seed)
    assert found <= names
    assert len(found) == (max(1, len(names) // OF) if len(names) >= FEWEST else 0)
    assert drawn(sorted(names, reverse=True), seed=seed) == found


def test_the_seed_draws():
    names = [f"test_{number}" for number in range(34)]
    assert len({drawn(names, seed=seed) for seed in range(20)}) > 5


def audited(*, until=42, **how):
    """Why windows are wrong, by a run that is trained on to its end; seen at step 33 to equal its reference."""
    of = reference(killed())
    seen = converged(killed(until=33).history(), of)
    assert seen is not None
    run = killed(until=60, ends=True, **how).exit(0)
    history = run.say("files", launch=run.launches, files=[["step-60.pt", 9]]).end("finished").history()
    case = Case(history, of)
    return why_wrong(case, of, seen, CHECKS, judge(case, CHECKS))


def test_a_run_that_goes_on_as_the_reference_is_no_reason():
    assert audited() == ""


def test_a_run_that_differs_later_is_one_with_its_step_and_component():
    why = audited(patch={(1, 50, "optimizer"): "odd"})
    assert "where the window shows pass" in why
    assert "differs from the reference at step 50, rank 1, in optimizer" in why


@pytest.mark.parametrize("name", ["state_restored", "same_data"])
def test_what_no_check_tells_is_one_too(name):
    """The verdicts are equal, and the run is not: a check that was not asked would tell."""
    of = reference(killed())
    seen = converged(killed(until=33).history(), of)
    history = killed(until=60, ends=True, losses={(0, 52): (9.0).hex()}).exit(0).end("finished").history()
    case, asked = Case(history, of), [getattr(checks, name)()]
    why = why_wrong(case, of, seen, asked, judge(case, asked))
    assert why.startswith("the run differs from the reference at step ") and why.endswith("in loss")
