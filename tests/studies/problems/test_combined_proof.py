"""The proofs of all experiments that show a problem come to one sentence, which counts them."""

import pytest

from chaoskit.engine.coded_finding import CodedFinding
from chaoskit.engine.result import Result
from chaoskit.studies.problems.combined_proof import combined
from chaoskit.studies.problems.problem import Proof
from chaoskit.studies.problems.suite_problems import problems_of

STREAM = ("rng.torch",)


def proof(name, outcome="proven", put_back=STREAM):
    return Proof(outcome, f"{outcome} it is", put_back, experiment=name, run=f"/runs/{name}")


def test_those_that_pass_are_counted_and_another_one_is_named():
    every = [*(proof(f"test_{n}") for n in range(22)), proof("test_x", "impossible", ())]
    one = combined(every)
    assert (one.outcome, one.put_back, one.run) == ("proven", STREAM, "/runs/test_0")
    counted = "with the torch CPU stream put back, 22 of 23 experiments pass"
    assert one.sentence == f"{counted}; test_x does not: impossible it is"
    assert combined(every[:22]).sentence == counted.replace("23", "22")


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        (("proven", "more-lost", "impossible"), "more-lost"),
        (("impossible", "proven"), "proven"),
        (("impossible", "impossible"), "impossible"),
    ],
)
def test_more_that_is_lost_anywhere_is_the_answer(outcomes, outcome):
    every = [proof(str(n), each, () if each == "impossible" else STREAM) for n, each in enumerate(outcomes)]
    one = combined(every)
    assert one.outcome == outcome
    # Where nothing was put back nothing is counted.
    assert ("experiments pass" in one.sentence) is (outcome != "impossible")


def test_a_problem_counts_only_if_every_experiment_that_shows_it_was_repeated():
    finding = CodedFinding("rng-not-restored", "lost")
    results = [Result(name, "fail", ("rng-not-restored",), findings=(finding,)) for name in ("test_a", "test_b")]
    (some,) = problems_of(results, proofs=[proof("test_b")])
    assert some.proof == proof("test_b")
    (every,) = problems_of(results, proofs=[proof("test_a"), proof("test_b")])
    assert every.proof.sentence == "with the torch CPU stream put back, 2 of 2 experiments pass"
    # A later proof of an experiment replaces an earlier one.
    (later,) = problems_of(results, proofs=[proof("test_a", "more-lost"), proof("test_a"), proof("test_b")])
    assert later.proof.outcome == "proven"
