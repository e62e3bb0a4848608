"""`stays_finite`: what is not a number, in a checkpoint and in the parameters."""

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.verdict import Outcome
from tests.history_writer import Writer

check = checks.stays_finite()


def test_a_finite_run_passes():
    assert check(Writer().launch().live(ends=True).exit(0).end().case()).outcome is Outcome.PASS


def test_a_poisoned_checkpoint():
    run = Writer().launch().live(until=25).save(nonfinite=["model.a", "model.b"]).fault().died()
    verdict = check(run.launch().live(base=20, ends=True).exit(0).end().case())
    assert verdict.codes == ("poisoned-checkpoint",)
    assert "rank 0 saved a non-finite value at step 25: model.a, and 1 more" in verdict.sentence


def test_what_the_reference_saves_too_is_its_own_affair():
    def run():
        return Writer().launch().live().save(nonfinite=["mask"]).ended().exit(0).end()

    reference = Reference.of([run().history(), run().history()])
    assert check(run().case(reference)).outcome is Outcome.PASS


def test_parameters_that_are_no_numbers():
    run = Writer().launch().live(until=25)
    run.say("step", "rank-0-1", n=26, losses=["nan"], state={"model": "bad"}, nonfinite=["model"])
    verdict = check(run.fault().died().launch().live(base=20, ends=True).exit(0).end().case())
    assert verdict.codes == ("nonfinite-accepted",)
    assert "after step 25 the model of rank 0 held non-finite values" in verdict.sentence
