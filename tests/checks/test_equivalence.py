"""Jobs that are not deterministic: the spread of the controls is the measure, and what is deterministic stays exact."""

import random

import pytest

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.errors import UsageError
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, truth

EXACT = ("lr", "batch", "rng.python", "scaler")


def noisy(number, *, noise=0.01, shift=0.0, since=0):
    """Run `number` of a job whose dropout nobody seeds; past step `since` its loss is off by `shift`."""

    def tell(name, rank, position):
        return truth(name, rank, position) if name in EXACT else f"{truth(name, rank, position)}#{number}"

    def loss(rank, step):
        generator = random.Random(f"{number} {rank} {step}")
        off = 1 + (shift if step > since else 0.0)
        return (off * (1 + noise * generator.gauss(0, 1)) / (step + 5)).hex()

    return {"tell": tell, "tell_loss": loss}


def reference(controls=5, **options):
    return Reference.of([Writer(**noisy(n, **options)).control().history() for n in range(controls)])


def run(*, off=None, shift=0.0, noise=0.01, number=77, patch=None):
    made = Writer(**noisy(number, shift=shift, since=20, noise=noise)).launch().live(until=25).fault().died()
    made.launch().live(base=20, off=off, drift=False, patch=patch, ends=True)
    return made.exit(0).end()


def test_a_run_like_the_controls_passes_and_says_how_it_was_judged():
    verdict = checks.matches_reference()(run().case(reference()))
    assert verdict.outcome is Outcome.PASS
    for words in (
        "5 controls",
        "Student's t",
        "false-alarm probability at most 0.01",
        "the test detects a shift of",
        "to the bit: batch",
    ):
        assert words in verdict.sentence


def test_a_loss_that_is_off_fails():
    verdict = checks.matches_reference()(run(shift=0.2).case(reference()))
    assert verdict.codes == ("loss-diverged",)


def test_what_the_controls_agree_in_is_held_to_the_bit():
    patch = {(rank, step, "lr"): f"lr@{step + 9}" for rank in (0, 1) for step in range(22, 61)}
    verdict = checks.matches_reference()(run(patch=patch).case(reference()))
    assert verdict.codes == ("lr-schedule-off",)


def test_the_state_is_held_to_the_run_itself():
    """Model and optimizer at step 20 were seen in the first life."""
    assert checks.state_restored()(run().case(reference())).outcome is Outcome.PASS
    verdict = checks.state_restored()(run(off={"optimizer": 0}).case(reference()))
    assert verdict.codes == ("optimizer-not-restored",)


def test_what_is_drawn_anew_is_said_and_not_claimed():
    anew = {(rank, step, "rng.torch"): f"anew {rank} {step}" for rank in (0, 1) for step in range(21, 61)}
    verdict = checks.state_restored()(run(patch=anew).case(reference()))
    assert verdict.outcome is Outcome.PASS
    assert "every component but rng.torch, which differs in every run" in verdict.sentence
    assert checks.state_restored()(run(patch=anew).case(reference(2))).codes == ("not-deterministic",)


def test_two_controls_are_too_few():
    verdict = checks.matches_reference()(run().case(reference(2)))
    assert verdict.codes == ("not-deterministic",)
    assert "--controls" in verdict.sentence


def test_a_test_without_power_is_no_pass():
    verdict = checks.matches_reference(shift=0.001)(run().case(reference()))
    assert verdict.codes == ("not-deterministic",)
    assert "more than shift=0.001" in verdict.sentence


def test_false_alarms_are_as_rare_as_stated():
    """Forty runs like the controls, at one in a hundred."""
    measure = reference()
    outcomes = [checks.matches_reference()(run(number=1000 + n).case(measure)).outcome for n in range(40)]
    assert outcomes.count(Outcome.FAIL) <= 3
    assert outcomes.count(Outcome.PASS) >= 37


def test_options_are_checked():
    with pytest.raises(UsageError, match="alpha"):
        checks.matches_reference(alpha=0)
    with pytest.raises(UsageError, match="shift"):
        checks.matches_reference(shift=2)
    told = checks.matches_reference(alpha=0.05).to_json()
    assert checks.from_json(told) == checks.matches_reference(alpha=0.05)
