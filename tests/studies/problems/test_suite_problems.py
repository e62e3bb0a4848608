"""Results become problems: one cause, one problem, whatever it looks like from experiment to experiment."""

from dataclasses import replace

import pytest

from chaoskit import checks
from chaoskit.checks import judge
from chaoskit.engine.coded_finding import CodedFinding, findings_of
from chaoskit.engine.result import Result, of_verdicts
from chaoskit.studies.problems.problem import Proof
from chaoskit.studies.problems.suite_problems import problems_of, undecided
from chaoskit.verdict import failed, inconclusive
from tests.history_writer import killed


def result(name, *found, verdict="fail", seconds=1.0, **fields):
    """An experiment with these findings: codes, or pairs (code, the code that it follows from)."""
    findings = tuple(
        CodedFinding(one, f"{one} happened", advice=f"mend {one}")
        if isinstance(one, str)
        else CodedFinding(one[0], f"{one[0]} happened", advice=f"mend {one[0]}", follows=one[1])
        if isinstance(one, tuple)
        else one
        for one in found
    )
    codes = tuple(one.code for one in findings)
    return Result(name, verdict, codes=codes, findings=findings, seconds=seconds, **fields)


def codes(*results, **options):
    return [problem.code for problem in problems_of(results, **options)]


def test_the_same_code_in_many_experiments_is_one_problem():
    many = [result(f"test_{n}", "rng-not-restored", seconds=n) for n in (3, 1, 2)]
    (problem,) = problems_of(many)
    assert problem.shown_by == ("test_1", "test_2", "test_3")
    assert (problem.sentence, problem.advice) == ("Rng-not-restored happened.", "Mend rng-not-restored.")


def test_what_loses_most_comes_first_and_weaknesses_last():
    weak = CodedFinding("needless-restart", "restarted", weakness=True)
    many = [
        result("test_a", weak), result("test_b", "hang"), result("test_c", "torn-checkpoint"),
        result("test_d", "rng-not-restored"), result("test_e", "rng-not-restored"),
    ]  # fmt: skip
    assert codes(*many) == ["rng-not-restored", "torn-checkpoint", "hang", "needless-restart"]
    assert codes(*reversed(many)) == codes(*many)
    assert [problem.weakness for problem in problems_of(many)] == [False, False, False, True]


def test_a_consequence_elsewhere_is_no_problem_while_its_cause_is_there():
    torn = result("test_a", "torn-checkpoint", ("crash-loop", "torn-checkpoint"))
    assert codes(torn, result("test_b", "crash-loop")) == ["torn-checkpoint"]
    assert codes(result("test_b", "crash-loop")) == ["crash-loop"]


def test_a_missing_guard_explains_nothing_where_its_fault_does_not_strike():
    guard = CodedFinding("nonfinite-accepted", "trained on NaN", weakness=True)
    nan = result("test_not_a_number", guard, ("stale-checkpoint", "nonfinite-accepted"))
    assert codes(nan, result("test_b", "stale-checkpoint")) == ["stale-checkpoint", "nonfinite-accepted"]


def test_a_checkpoint_that_no_exception_names_is_a_problem_of_its_own():
    lost = result("test_a", "rng-not-restored", ("stale-checkpoint", "rng-not-restored"))
    assert codes(lost, result("test_b", "stale-checkpoint")) == ["rng-not-restored", "stale-checkpoint"]


def test_a_crash_of_another_kind_is_a_problem_of_its_own():
    def crash(sentence, follows=""):
        return CodedFinding("crash-loop", f"in the last launch rank 0 failed with {sentence}", follows=follows)

    torn = result("test_a", "torn-checkpoint", crash("EOFError: /a/1 is cut", "torn-checkpoint"))
    assert codes(torn, result("test_b", crash("EOFError: /b/2 is cut"))) == ["torn-checkpoint"]
    other = result("test_b", crash("OSError: no space left"))
    assert codes(torn, other) == ["torn-checkpoint", "crash-loop"]


def test_state_that_is_lost_by_itself_too_is_a_problem_of_its_own():
    accepted = result("test_a", "corrupt-accepted", ("rng-not-restored", "corrupt-accepted"))
    assert codes(accepted) == ["corrupt-accepted"]
    assert sorted(codes(accepted, result("test_b", "rng-not-restored"))) == ["corrupt-accepted", "rng-not-restored"]


def test_another_order_is_the_position_where_the_job_stands_at_a_step_in_the_data():
    other = CodedFinding("data-reordered", "another order", at=0)
    assert codes(result("test_a", "data-replayed"), result("test_b", other)) == ["data-replayed"]
    strange = replace(other, at=None)
    assert codes(result("test_a", "data-replayed"), result("test_b", strange)) == ["data-replayed", "data-reordered"]


def test_the_position_in_the_data_is_one_thing():
    assert codes(result("test_a", "data-replayed"), result("test_b", "data-skipped")) == ["data-replayed"]


def test_a_missing_guard_is_a_weakness_though_the_same_code_is_a_consequence_elsewhere():
    accepted = result("test_a", "corrupt-accepted", ("nonfinite-accepted", "corrupt-accepted"))
    guard = result("test_b", CodedFinding("nonfinite-accepted", "it trained on nan", weakness=True))
    found = problems_of([accepted, guard])
    assert [(one.code, one.weakness) for one in found] == [("corrupt-accepted", False), ("nonfinite-accepted", True)]


def test_a_weakness_that_is_a_problem_elsewhere_is_that_problem():
    gone = CodedFinding("restarted-from-scratch", "nothing was there", weakness=True)
    (problem,) = problems_of([result("test_hidden", gone), result("test_resume", "restarted-from-scratch")])
    assert not problem.weakness and problem.shown_by == ("test_resume", "test_hidden")


def test_a_proof_tells_causes_from_consequences():
    both = result("test_resume", "optimizer-not-restored", "lr-schedule-off")
    assert len(codes(both)) == 2
    proof = Proof("proven", "it was exact", put_back=("optimizer",), experiment="test_resume")
    (problem,) = problems_of([both], proofs=[proof])
    assert (problem.code, problem.consequences, problem.proof) == (
        "optimizer-not-restored", ("lr-schedule-off",), proof,
    )  # fmt: skip
    more = replace(proof, outcome="more-lost", codes=("lr-schedule-off",))
    assert len(codes(both, proofs=[more])) == 2


def test_a_result_stored_without_findings_tells_by_its_codes():
    old = Result("test_a", "fail", codes=("torn-checkpoint", "crash-loop"), sentences=("It crashed.",))
    (problem,) = problems_of([Result.from_json({**old.to_json(), "findings": ()})])
    assert (problem.code, problem.consequences) == ("torn-checkpoint", ("crash-loop",))
    assert problem.sentence and problem.advice


def test_what_could_not_be_judged_is_said_once_for_each_reason():
    open_ = [of_verdicts(name, [inconclusive("completed", "not seen", "probe-blind")]) for name in ("test_a", "test_b")]
    (reason,) = undecided(open_)
    assert (reason.code, reason.shown_by) == ("probe-blind", ("test_a", "test_b"))
    assert not problems_of(open_)


def test_passed_and_skipped_experiments_are_no_problem():
    assert not problems_of([Result("test_a", "pass"), Result("test_b", "skipped")])


def test_the_sentence_of_a_code_is_about_that_code_alone():
    claims = (checks.state_restored(), checks.same_data(), checks.matches_reference())
    case = killed(off={(1, "rng.torch"): 0, (0, "optimizer"): 0, (1, "optimizer"): 0}).case()
    verdicts = [one for one in judge(case, claims) if one.outcome == "fail"]
    found = {one.code: one for one in findings_of(verdicts)}
    assert found["rng-not-restored"].sentence == (
        "The random state is not restored: resumed from step 20, stream torch of rank 1 is that of step 0."
    )
    assert found["optimizer-not-restored"].sentence.startswith("The optimizer is not restored: resumed from step 20")
    assert "every rank" in found["optimizer-not-restored"].sentence
    assert not any(one.follows for one in found.values() if one.code.endswith("not-restored"))


@pytest.mark.parametrize(
    ("kinds", "cause", "weak"),
    [(["nan", "kill"], "nonfinite-accepted", True), (["kill"], "model-not-restored", False)],
)
def test_taking_in_a_number_that_a_fault_put_in_is_a_weakness(kinds, cause, weak):
    verdicts = [
        failed("no_poisoned_checkpoint", "saved", "poisoned-checkpoint"),
        failed("detected_within", "trained", "nonfinite-accepted"),
        failed("resumed_from_last_valid", "wrong", "model-not-restored"),
    ]
    found = {one.code: one for one in findings_of(verdicts, kinds)}
    assert [code for code, one in found.items() if not one.follows] == [cause]
    assert found["nonfinite-accepted"].weakness is weak
