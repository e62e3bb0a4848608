"""What counts of the verdicts on a run, once a loss is accepted: its own code hides, and nothing else."""

from datetime import date

import pytest

from chaoskit.engine.result import ACCEPTED, Result, exit_code, overall, with_rulings
from chaoskit.engine.ruling import Ruling
from chaoskit.errors import ExitCode
from chaoskit.studies.problems.acceptance import Acceptance, decide, names_of, unmatched
from chaoskit.studies.problems.problem import Proof
from chaoskit.verdict import Outcome, failed, inconclusive, passed

RNG = Acceptance("rng-not-restored", "dropout may differ", date(2027, 6, 1), where="pyproject.toml:4")
DAY = date(2027, 6, 1)
GOOD = passed("completed", "It ended.")
LOST = failed("state_restored", "RNG not restored.", "rng-not-restored")
SAME = failed("matches_reference", "RNG not restored; wrong loss.", "rng-not-restored")
BOTH = failed("matches_reference", "RNG and data.", "rng-not-restored", "data-replayed")
TORN = failed("completed", "It crashed.", "torn-checkpoint")
OPEN = inconclusive("same_data", "Not seen.", "probe-blind")


def ruled(*verdicts, by=(RNG,), name="test_resume", day=DAY, proof=None):
    return decide(verdicts, by, names=names_of(name, f"test_x.py::{name}"), day=day, proof=proof)


def test_a_loss_that_is_accepted_is_no_fail():
    found = ruled(GOOD, LOST, SAME)
    assert (found.outcome, found.accepted, found.verdicts) == (Outcome.PASS, ("rng-not-restored",), (GOOD,))
    assert found.reasons == {"rng-not-restored": "dropout may differ"}
    assert any("pyproject.toml:4" in note for note in found.notes)
    assert any("only where the comparison allows it" in note for note in found.notes)


def test_a_run_of_which_every_verdict_is_accepted():
    assert ruled(LOST).outcome is Outcome.PASS and ruled(LOST).verdicts == ()


def test_nothing_was_lost_so_nothing_is_accepted():
    assert ruled(GOOD) == Ruling((GOOD,))
    assert ruled(OPEN).outcome is Outcome.INCONCLUSIVE


def test_a_further_code_fails():
    found = ruled(GOOD, LOST, BOTH, TORN)
    assert found.outcome is Outcome.FAIL and found.accepted == ("rng-not-restored",)
    assert [verdict.codes for verdict in found.verdicts] == [(), ("data-replayed",), ("torn-checkpoint",)]


def test_what_could_not_be_decided_is_not_hidden():
    """Beside a fail an undecided verdict is noise; once the fail is accepted, it is what counts."""
    assert ruled(GOOD, LOST, OPEN).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("day", "outcome"), [(date(2027, 6, 1), Outcome.PASS), (date(2027, 6, 2), Outcome.FAIL)])
def test_the_last_day(day, outcome):
    found = ruled(LOST, day=day)
    assert found.outcome is outcome
    assert any("expired" in note for note in found.notes) is (outcome is Outcome.FAIL)


def test_an_acceptance_without_an_end():
    assert ruled(LOST, by=[Acceptance("rng-not-restored", "x")], day=date.max).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("experiment", "name", "outcome"),
    [
        ("test_resume", "test_resume", Outcome.PASS),
        ("test_resume", "test_twice", Outcome.FAIL),
        ("test_nan", "test_nan[inf]", Outcome.PASS),
        ("test_nan[inf]", "test_nan[inf]", Outcome.PASS),
        ("test_nan[nan]", "test_nan[inf]", Outcome.FAIL),
        ("test_x.py::test_own", "test_own", Outcome.PASS),
        ("test_y.py::test_own", "test_own", Outcome.FAIL),
    ],
)
def test_an_acceptance_for_one_experiment(experiment, name, outcome):
    one = Acceptance("rng-not-restored", "x", experiment=experiment)
    assert ruled(LOST, by=[one], name=name).outcome is outcome


def test_an_expired_acceptance_beside_a_valid_one():
    old = Acceptance("rng-not-restored", "x", date(2020, 1, 1))
    new = Acceptance("rng-not-restored", "y", experiment="test_resume")
    found = ruled(LOST, by=[old, new])
    assert found.outcome is Outcome.PASS and found.reasons == {"rng-not-restored": "y"}


class TestProof:
    def test_proven_makes_differences_consequences(self):
        proof = Proof("proven", "With the streams put back every step is exact.", ("rng",))
        spread = failed("same_data", "Other batches.", "data-reordered")
        found = ruled(LOST, spread, GOOD, proof=proof)
        assert found.outcome is Outcome.PASS and found.accepted == ("rng-not-restored",)
        assert proof.sentence in found.notes and not any("comparison allows" in note for note in found.notes)
        assert ruled(LOST, spread, GOOD).outcome is Outcome.FAIL

    def test_proven_excuses_nothing_that_is_no_difference(self):
        assert ruled(LOST, TORN, proof=Proof("proven", "Exact.")).outcome is Outcome.FAIL

    def test_what_remained_counts(self):
        proof = Proof("more-lost", "The optimizer is lost, too.", codes=("optimizer-not-restored",))
        found = ruled(GOOD, LOST, proof=proof)
        assert found.outcome is Outcome.FAIL
        assert found.verdicts[-1].codes == ("optimizer-not-restored",)

    def test_impossible_leaves_the_comparison(self):
        found = ruled(GOOD, LOST, proof=Proof("impossible", "The streams cannot be put back."))
        assert found.outcome is Outcome.PASS
        assert any("cannot be put back" in note for note in found.notes)
        assert any("comparison allows" in note for note in found.notes)


class TestResult:
    def test_a_pass_becomes_accepted(self):
        made = with_rulings(Result("test_x", "pass"), [ruled(GOOD, LOST, SAME)])
        assert (made.verdict, made.accepted, made.codes) == (ACCEPTED, ("rng-not-restored",), ())
        assert made.sentences[:2] == (LOST.sentence, SAME.sentence) or SAME.sentence in made.sentences
        assert Result.from_json(made.to_json()) == made

    def test_a_fail_stays_one(self):
        made = with_rulings(Result("test_x", "fail", ("torn-checkpoint",)), [ruled(LOST, TORN)])
        assert (made.verdict, made.accepted) == ("fail", ("rng-not-restored",))

    def test_the_exit_code(self):
        accepted, good = Result("a", ACCEPTED), Result("b", "pass")
        assert overall([accepted]) is overall([accepted, good]) is Outcome.PASS
        assert exit_code([accepted]) is ExitCode.PASS
        assert exit_code([accepted, Result("c", "fail")]) is ExitCode.FAIL
        assert exit_code([accepted, Result("c", "inconclusive")]) is ExitCode.INCONCLUSIVE


def test_acceptances_that_match_nothing():
    other = Acceptance("hang", "x")
    results = [Result("test_a", ACCEPTED, accepted=("rng-not-restored",)), Result("test_b", "pass")]
    assert list(unmatched([RNG, other], results)) == [other]
    narrow = Acceptance("rng-not-restored", "x", experiment="test_b")
    assert list(unmatched([narrow], results)) == [narrow]
    # What was not run, or not decided, tells nothing.
    assert not list(unmatched([Acceptance("hang", "x", experiment="test_c")], results))
    assert not list(unmatched([other], [*results, Result("test_c", "inconclusive")]))
    assert not list(unmatched([other], [Result("test_c", "skipped")]))
    # One that has expired still matches: the result is a fail.
    assert not list(unmatched([other], [Result("test_c", "fail", ("hang",))]))


def test_a_job_that_may_begin_again_resumed_from_nothing():
    scratch = Acceptance("restarted-from-scratch", "our disk is never empty")
    begun = failed("falls_back_to_last_valid", "It began again.", "restarted-from-scratch")
    nothing = inconclusive("state_restored", "No resume was tested.", "nothing-to-resume")
    found = ruled(GOOD, begun, nothing, by=(scratch,))
    assert found.outcome is Outcome.PASS and "No resume was tested." in found.told
    # Where nobody has accepted that, or something else was not decided, it stays undecided.
    assert ruled(GOOD, nothing, by=(scratch,)).outcome is Outcome.INCONCLUSIVE
    assert ruled(GOOD, begun, nothing, OPEN, by=(scratch,)).outcome is Outcome.INCONCLUSIVE
