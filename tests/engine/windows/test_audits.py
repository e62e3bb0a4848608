"""Experiments that are run in a window and whole, and what both verdicts say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import checks
from chaoskit.analysis.case import Case
from chaoskit.checks import judge
from chaoskit.engine.windows.audits import FEWEST, OF, SessionAudits, drawn, why_wrong
from chaoskit.verdict import passed
from tests.analysis.windows.by_hand import killed, reference
from tests.history_writer import Writer

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


def test_the_first_window_of_a_job_is_audited_and_counts_as_one_that_was_drawn():
    audits = SessionAudits(frozenset({"b", "c"}))
    assert audits.claim("job", "a", first=True)
    assert not audits.claim("job", "d", first=True), "while the first is not over, no other is one"
    assert audits.claim("job", "c", first=True)
    assert not audits.claim("job", "b", first=False), "two were drawn, and two are audited"
    assert audits.claim("another job", "b", first=False)
    assert not audits.claim("another job", "a", first=False)


def test_a_session_that_draws_none_audits_the_first_window_of_each_job():
    audits = SessionAudits()
    assert [audits.claim("job", name, first=True) for name in ("", "b")] == [True, False]
    assert audits.claim("another job", "a", first=True) and not audits.claim("a third", "a", first=False)


def test_what_came_to_nothing_is_given_back():
    audits = SessionAudits()
    assert audits.claim("job", "a", first=True)
    audits.release("job", "b")
    assert not audits.claim("job", "b", first=True)
    audits.release("job", "a")
    assert audits.claim("job", "b", first=True)


def test_one_that_cannot_be_audited_passes_it_on():
    audits = SessionAudits(frozenset({"a", "b"}))
    audits.pass_on("job", "x")
    audits.pass_on("job", "a")
    assert audits.claim("job", "c", first=False)
    assert not audits.claim("job", "d", first=False)
    assert audits.claim("job", "b", first=False)
    audits.release("job", "b")
    assert audits.claim("job", "e", first=False)
    assert not audits.claim("job", "f", first=False)


def test_processes_side_by_side_share_their_audits(tmp_path):
    one, other = (SessionAudits(frozenset({"b"}), shared=tmp_path / "audits.jsonl") for _ in range(2))
    assert one.claim("job", "a", first=True) and not other.claim("job", "b", first=True)
    one.release("job", "a")
    assert other.claim("job", "b", first=True) and not one.claim("job", "a", first=True)


def audited(*, asked=CHECKS, **how):
    """Why windows are wrong, by a whole run whose window passed."""
    run = Writer(every=10)
    run.launch(out="/runs/1/out").live(until=25).fault().died()
    run.launch(out="/runs/1/out").live(base=20, ends=True, **how).exit(0)
    history = run.say("files", launch=run.launches, files=[["step-60.pt", 9]]).end("finished").history()
    case = Case(history, reference(killed()))
    early = [passed(name, "equal") for name in ("faults_took_effect", *(check.name for check in asked))]
    return why_wrong(case, early, judge(case, asked))


def test_a_whole_run_that_ends_as_its_window_is_no_reason():
    assert audited() == ""


def test_one_that_differs_later_is_one_with_its_step_and_component():
    why = audited(patch={(1, 50, "optimizer"): "odd"})
    assert "where the window shows pass" in why
    assert "differs from the reference at step 50, rank 1, in optimizer" in why


@pytest.mark.parametrize("name", ["state_restored", "same_data"])
def test_what_no_check_tells_is_one_too(name):
    """The verdicts are equal, and the run is not: a check that was not asked would tell."""
    why = audited(asked=[getattr(checks, name)()], losses={(0, 52): (9.0).hex()})
    assert why.startswith("the run differs from the reference at step ") and why.endswith("in loss")
