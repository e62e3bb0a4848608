"""The sentence at the top: what was proved, what is wrong, or why nobody knows."""

import pytest

from chaoskit import checks
from chaoskit.checks import Case, judge
from chaoskit.errors import CODES
from chaoskit.report.headline import ORDER, headline, readable
from chaoskit.verdict import Outcome, failed, inconclusive, passed
from tests.history_writer import Writer, killed

CLAIMS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.matches_reference(),
)  # fmt: skip


def of(run):
    case = run.case()
    return headline(case, judge(case, CLAIMS))


def test_a_pass_says_what_was_done_and_proved():
    found = of(killed(at=25, base=20))
    assert found.outcome is Outcome.PASS and not found.codes and not found.more
    assert found.sentence.startswith(
        "After 'kill rank 1' the job resumed from step 20, its last valid checkpoint, lost 5 steps, and recovered in"
    )
    assert found.sentence.endswith("the training is bitwise equal to the uninterrupted run up to step 60.")


def test_it_claims_no_equality_that_nobody_checked():
    case = killed(at=25).case()
    sentence = headline(case, judge(case, (checks.completed(),))).sentence
    assert "equal" not in sentence and "passed" in sentence


def test_where_only_the_return_to_the_reference_was_claimed_that_is_what_it_says():
    case = killed(at=25).case()
    said = passed("returned_to_reference", "from step 30 on every loss is equal to the bit")
    sentence = headline(case, [passed("completed", "fine"), said]).sentence
    assert sentence.endswith("; from step 30 on every loss is equal to the bit.")


def test_what_was_ridden_out_and_what_nothing_happened_to():
    assert of(Writer().launch().live(pause=30, ends=True).exit(0).end()).sentence.startswith("The job survived")
    case = Writer().launch().live(ends=True).exit(0).end().case()
    assert headline(case, [passed("completed", "fine")]).sentence.startswith("No fault was injected into this run")


@pytest.mark.parametrize(
    ("off", "code", "word"),
    [
        ({"optimizer": 0}, "optimizer-not-restored", "optimizer not restored"),
        ({"rng.torch": 0}, "rng-not-restored", "RNG not restored"),
        ({"lr": 25}, "lr-schedule-off", "LR off"),
        ({"batch": 0}, "data-replayed", "data"),
        ({"ema": 0}, "ema-not-restored", "EMA not restored"),
    ],
)
def test_a_fail_names_what_was_forgotten(off, code, word):
    found = of(killed(at=25, base=20, off=off))
    assert found.outcome is Outcome.FAIL and code in found.codes
    assert word in " ".join((found.sentence, *found.more)) and CODES[code]


def test_the_cause_leads_and_nothing_is_said_twice():
    verdicts = [
        failed("matches_reference", "the losses differ", "loss-diverged"),
        failed("completed", "it never came back", "crash-loop"),
        failed("resumed", "it never came back: the save was torn", "torn-checkpoint"),
        passed("stays_finite", "fine"),
        inconclusive("no_orphans", "nobody knows", "probe-blind"),
    ]
    found = headline(killed().case(), verdicts)
    assert found.codes == ("torn-checkpoint", "crash-loop", "loss-diverged")
    assert found.sentence == "It never came back: the save was torn."
    assert found.more == ("The losses differ.",)


def test_every_code_has_a_place():
    assert set(ORDER) == set(CODES)


def test_inconclusive_says_why():
    found = headline(
        killed().case(), [passed("a", "fine"), inconclusive("b", "nobody saw it", "fault-not-observed")]
    )
    assert (found.outcome, found.sentence) == (Outcome.INCONCLUSIVE, "Nobody saw it.")
    assert found.codes == ("fault-not-observed",)


def test_what_was_not_judged_says_so():
    found = headline(Case(Writer().launch().live(until=5).history(), None), None)
    assert (
        found.outcome is None
        and "This run has no verdicts" in found.sentence
        and "the record is incomplete" in found.sentence
    )


def test_numbers_are_for_people():
    assert readable("loss 0x1.8000000000000p+1 against -0x1.0p-1") == "loss 3 against -0.5"
    assert readable("nan against 0x1.0000000000000p+0") == "nan against 1"
    near = readable("0x1.0000000000000p+0 against 0x1.0000000000001p+0")
    assert near == "1 against 1.0000000000000002"
    # As many digits as tell them apart, and not one more.
    assert readable("0x1.9798380000000p+1 against 0x1.9798480000000p+1") == "3.184333 against 3.184335"
