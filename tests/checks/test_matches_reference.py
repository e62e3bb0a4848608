"""`matches_reference`: to the bit, on every step that was executed."""

import math

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import matches_reference
from chaoskit.errors import UsageError
from chaoskit.verdict import Outcome
from tests.history_writer import NAMES, Writer, killed, loss, truth

check = matches_reference()


def test_an_exact_run_passes_and_says_what_was_compared():
    verdict = check(killed().case())
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence["compared"] == 130
    assert "10 of them rolled back" in verdict.sentence
    assert set(verdict.evidence["components"]) == {*NAMES, "loss"}


def resumed(**options):
    run = Writer().launch().live(until=25).fault().died()
    return run.launch().live(base=20, ends=True, **options).exit(0).end().case()


def test_one_wrong_bit_of_one_loss_fails():
    wrong = math.nextafter(float.fromhex(loss(1, 41)), 2.0).hex()
    verdict = check(resumed(losses={(1, 41): wrong}))
    assert verdict.codes == ("loss-diverged",)
    # People read decimals that differ, the evidence has the exact bits.
    assert "step 41: 0.02325581395348838 instead of 0.02325581395348837" in verdict.sentence
    assert verdict.evidence["differences"][0]["values"] == {"loss": [wrong, loss(1, 41)]}


def test_a_rolled_back_step_counts_too():
    run = Writer().launch().live(until=22)
    at = run.t
    run.fault()
    rest = Writer().launch().live(until=25, losses={(0, 24): (9.0).hex()})
    for event in rest.events:
        if event.kind == "step" and event["n"] > 22:
            run.events.append(type(event)(event.kind, at + event.t, event.source, event.data))
    run.t = at + rest.t
    run.died().launch().live(base=20, ends=True).exit(0).end()
    verdict = check(run.case())
    assert verdict.codes == ("loss-diverged",)
    assert "step 24" in verdict.sentence


def test_the_state_explains_the_loss():
    verdict = check(killed(off={(1, "rng.torch"): 0}).case())
    assert verdict.codes == ("rng-not-restored",)
    assert "first wrong loss at step 21" in verdict.sentence


def test_a_model_that_parts_while_all_else_was_right_diverged():
    patch = {(rank, step, "model"): f"other{step}" for rank in (0, 1) for step in range(43, 61)}
    verdict = check(resumed(patch=patch))
    assert verdict.codes == ("loss-diverged",)
    assert "diverges from the reference at step 43, in model" in verdict.sentence


def test_replicas_that_part_are_named():
    patch = {(1, step, "model"): f"other{step}" for step in range(43, 61)}
    assert check(resumed(patch=patch)).codes == ("ranks-diverged",)


def test_a_loss_that_is_no_number():
    verdict = check(resumed(losses={(0, 50): "nan"}))
    assert verdict.codes == ("nonfinite-accepted",)
    assert "loss of nan at step 50" in verdict.sentence


def test_steps_past_the_last_are_no_match():
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, until=63, ends=True).exit(0).end()
    verdict = check(run.case(Reference.of([Writer().control().history()] * 2)))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.evidence["differences"][0]["values"] == {"steps": ["taken", "not taken"]}


def test_missing_steps_are_no_match():
    run = Writer().launch().live(until=25).fault().died().launch().live(base=20, until=50, ends=True).exit(0).end()
    assert check(run.case()).codes == ("exited-early",)
    run = Writer().launch().live(until=25).fault().died().launch().died().end("gave-up")
    assert check(run.case()).codes == ("crash-loop",)


def test_a_component_that_was_not_seen_is_no_match():
    patch = {(0, 45, "optimizer"): None}
    assert check(resumed(patch=patch)).codes == ("probe-blind",)


def test_nothing_seen_is_no_match():
    assert check(Writer().launch().exit(0).end().case()).codes == ("probe-blind",)


def test_a_run_that_never_saw_a_model_or_a_loss_is_no_match():
    run = killed(names=["lr"])
    run.events = [type(e)(e.kind, e.t, e.source, {**e.data, "losses": []}) for e in run.events]
    control = Writer(names=["lr"]).control()
    control.events = [type(e)(e.kind, e.t, e.source, {**e.data, "losses": []}) for e in control.events]
    verdict = check(run.case(Reference.of([control.history(), control.history()])))
    assert verdict.outcome is Outcome.INCONCLUSIVE


def noisy(scale):
    """A job whose losses and models differ a little from run to run."""

    def tell(name, rank, position):
        return f"{truth(name, rank, position)}~{scale}" if name == "model" else truth(name, rank, position)

    losses = {(r, s): (float.fromhex(loss(r, s)) * (1 + scale)).hex() for r in (0, 1) for s in range(1, 61)}
    return tell, losses


def told(scale, *, fault=False):
    tell, losses = noisy(scale)
    run = Writer(tell=tell).launch()
    if fault:
        run.live(until=25, losses=losses).fault().died().launch().live(base=20, losses=losses, ends=True)
    else:
        run.live(losses=losses, ends=True)
    return run.exit(0).end()


def test_without_determinism_bits_prove_nothing():
    reference = Reference.of([told(0.0).history(), told(1e-6).history()])
    case = told(2e-6, fault=True).case(reference)
    assert check(case).codes == ("not-deterministic",)
    assert "the controls diverge at step 1" in check(case).sentence
    loose = matches_reference(rtol=1e-5)(case)
    assert loose.outcome is Outcome.PASS
    assert "rtol=1e-05" in loose.sentence
    assert matches_reference(rtol=1e-8)(case).codes == ("loss-diverged",)


def test_rtol_never_loosens_what_can_be_judged_to_the_bit():
    wrong = math.nextafter(float.fromhex(loss(1, 41)), 2.0).hex()
    assert matches_reference(rtol=0.5)(resumed(losses={(1, 41): wrong})).codes == ("loss-diverged",)


@pytest.mark.parametrize("rtol", [-1, 1, True, "0.1", math.nan])
def test_rtol_is_validated(rtol):
    with pytest.raises(UsageError, match="rtol"):
        matches_reference(rtol=rtol)
