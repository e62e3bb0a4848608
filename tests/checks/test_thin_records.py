"""Checks of runs that recorded their state at some steps only (`--record-every`): what they find and claim."""

import math

import pytest

from chaoskit import checks
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import converged
from chaoskit.checks import Case, judge
from chaoskit.verdict import Outcome
from tests.history_writer import NAMES, Writer, killed, loss, truth

EVERY = 5
#: What a resume may lose, and the code of it.
LOST = {
    "model": "model-not-restored", "buffers": "buffers-not-restored", "optimizer": "optimizer-not-restored",
    "scaler": "scaler-not-restored", "ema": "ema-not-restored", "rng.torch": "rng-not-restored",
    "lr": "lr-schedule-off", "batch": "data-replayed",
}  # fmt: skip


def thin(run, *, every=EVERY):
    """The run as its ranks would have recorded it, beside a whole control and a thin one."""
    controls = [run.control().history(), run.control().thin(every).history()]
    return run.thin(every).case(Reference.of(controls))


def resumed(**options):
    run = Writer().launch().live(until=25).fault().died()
    return thin(run.launch().live(base=20, ends=True, **options).exit(0).end())


def since(step, name, *, ranks=(0, 1)):
    """What differs in a component from a step to the last."""
    return {(rank, at, name): f"other{at}" for rank in ranks for at in range(step, 61)}


def test_a_right_run_passes_and_says_at_how_many_steps_state_was_seen():
    case = thin(killed())
    verdict = checks.matches_reference()(case)
    assert verdict.outcome is Outcome.PASS
    # Steps 1-8, 10, 15, 20, 21-25 of the first life; 1-8 of the second, and then by fives up to step 60, with those
    # after the save of step 40: on two ranks.
    first = [*range(1, 9), 10, 15, *range(20, 26)]
    second = sorted({*range(1, 9), *range(10, 41, 5), *range(21, 29)})
    assert verdict.evidence["recorded"] == 2 * (len(first) + len(second))
    assert verdict.sentence == (
        f"130 executed steps, 10 of them rolled back, are equal to the reference to the bit; state was recorded at "
        f"{2 * (len(first) + len(second))} of them, losses, learning rates and batches at all (--record-every)"
    )
    for check in (checks.state_restored(), checks.same_data(), checks.lr_schedule_kept(), checks.completed(),
                  checks.resumed_from_last_valid(), checks.recoveries_exact()):  # fmt: skip
        assert check(case).outcome is Outcome.PASS, check.name


def test_a_record_of_every_step_says_nothing_of_that():
    verdict = checks.matches_reference()(thin(killed(), every=1))
    assert verdict.sentence == "130 executed steps, 10 of them rolled back, are equal to the reference to the bit"
    assert "recorded" not in verdict.evidence


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("base", [20, 40])
def test_what_a_resume_loses_has_the_code_that_it_has_with_every_step(name, base):
    run = killed(at=base + 5, base=base, off={name: 0})
    whole, case = run.case(), thin(run)
    for check in (checks.matches_reference(), checks.state_restored(), checks.recoveries_exact()):
        verdict = check(case)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.codes == check(whole).codes, check.name
        assert LOST[name] in verdict.codes


def test_a_resume_from_another_step_than_that_of_a_save():
    # An emergency save after step 23, which the reference has not: the first control has every step all the same.
    run = Writer().launch().live(until=23, extra={23: "emergency.pt"}).fault().died()
    run.launch().live(base=23, off={"rng.torch": 0}, ends=True).exit(0).end()
    case = thin(run)
    assert case.timeline.base(1) == 23
    assert checks.state_restored()(case).codes == ("rng-not-restored",)


def test_a_difference_between_two_records_is_seen_at_the_next_one():
    # True step 52 is step 32 of its process; step 35 of it, true step 55, is the next one that was recorded.
    verdict = checks.matches_reference()(resumed(patch=since(52, "model")))
    assert verdict.codes == ("loss-diverged",)
    assert "at step 55, in model, or earlier, after step 50: its state was not recorded there" in verdict.sentence
    assert "--record-every 1" in verdict.sentence


def test_a_wrong_loss_is_seen_at_its_own_step():
    wrong = math.nextafter(float.fromhex(loss(1, 52)), 2.0).hex()
    verdict = checks.matches_reference()(resumed(losses={(1, 52): wrong}))
    assert verdict.codes == ("loss-diverged",)
    assert "rank 1 diverges from the reference at step 52, in loss, while every component was right" in verdict.sentence


def test_what_was_right_before_a_wrong_loss_is_said_as_far_as_it_was_recorded():
    patch = since(52, "model") | since(52, "optimizer")
    verdict = checks.matches_reference()(resumed(patch=patch, losses={(0, 55): (9.0).hex()}))
    assert "while every component was right up to step 50, after which it was not recorded" in verdict.sentence


def test_a_stream_that_differs_later_says_since_when_it_may():
    verdict = checks.matches_reference()(resumed(patch=since(52, "rng.torch"), losses={(0, 57): (9.0).hex()}))
    assert verdict.codes == ("rng-not-restored",)
    assert "diverges at step 55, or earlier, after step 50" in verdict.sentence


@pytest.mark.parametrize(("name", "code"), [("lr", "lr-schedule-off"), ("batch", "data-reordered")])
def test_learning_rates_and_data_are_compared_at_every_step(name, code):
    case = resumed(patch={(1, 52, name): "other"})
    check = checks.lr_schedule_kept() if name == "lr" else checks.same_data()
    assert code in check(case).codes or "data-differs" in check(case).codes
    assert "step 52" in check(case).sentence


def test_a_component_that_is_absent_where_it_was_due_is_no_thin_step():
    verdict = checks.matches_reference()(resumed(patch={(0, 55, "ema"): None}))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "ema was not recorded at step 55" in verdict.sentence


def test_a_life_without_any_state_proves_nothing():
    run = killed()
    for number, event in enumerate(run.events):
        if event.kind == "step" and event.source == "rank-1-2":
            state = {name: event["state"][name] for name in ("lr", "batch")}
            data = {**event.data, "state": state, "thin": True}
            run.events[number] = type(event)(event.kind, event.t, event.source, data)
    reference = Reference.of([killed().control().history()] * 2)
    verdict = checks.matches_reference()(Case(run.history(), reference))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.codes == ("probe-blind",)
    assert "state of rank 1 was recorded at no step of incarnation 1" in verdict.sentence
    assert "--record-every 1" in verdict.sentence


def test_replicas_are_compared_where_all_recorded_them():
    right = checks.replicas_agree()(thin(killed()))
    assert right.outcome is Outcome.PASS
    assert "steps at which the state of all of them was recorded, of 65 (--record-every)" in right.sentence
    assert right.evidence["compared"] < 65
    assert checks.replicas_agree()(resumed(patch=since(52, "model", ranks=[1]))).codes == ("ranks-diverged",)


def test_replicas_whose_records_have_no_step_in_common():
    run = killed()
    for number, event in enumerate(run.events):
        if event.kind == "step" and event["n"] % 2 == (event.source[5] == "0"):
            data = {**event.data, "state": {}, "thin": True}
            run.events[number] = type(event)(event.kind, event.t, event.source, data)
    replicas = [{"rank": rank, "ranks": [0, 1]} for rank in (0, 1)]
    for life in (1, 2):
        for one in replicas:
            source = f"rank-{one['rank']}-{life}"
            at = next(event.t for event in run.events if event.source == source and event.kind == "step")
            run.events.append(type(run.events[0])("replicas", at, source, {"ranks": one["ranks"]}))
    reference = Reference.of([killed().control().history()] * 2)
    verdict = checks.replicas_agree()(Case(run.history(), reference))
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))


@pytest.mark.parametrize("check", [checks.rolled_back_cleanly(), checks.returned_to_reference()])
def test_what_a_corrupted_number_did_needs_every_step(check):
    run = Writer().launch().live(until=30, strike={24: {}}).died().launch().live(base=20, ends=True).exit(0).end()
    assert check(run.case()).outcome is Outcome.PASS
    verdict = check(thin(run))
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))
    assert "--record-every 1" in verdict.sentence


def test_controls_that_agree_say_where_that_was_seen():
    verdict = checks.controls_agree()(thin(killed()))
    assert verdict.outcome is Outcome.PASS
    assert verdict.sentence.startswith("2 controls agree to the bit in 60 steps; state was recorded at ")


def test_controls_that_differ_between_two_records():
    whole, other = Writer().control(), Writer().launch().live(ends=True, patch=since(52, "model")).exit(0).end()
    reference = Reference.of([whole.history(), other.thin(EVERY).history()])
    assert not reference.deterministic
    assert reference.divergence.step == 55
    assert "model" not in reference.agreeing


def test_controls_that_differ_where_one_recorded_nothing_are_not_known_to():
    patch = {(0, 52, "model"): "other"}
    whole, other = Writer().control(), Writer().launch().live(ends=True, patch=patch).exit(0).end()
    assert Reference.of([whole.history(), other.thin(EVERY).history()]).deterministic


def test_a_stream_that_rests_is_unused_in_a_thin_record_too():
    patch = {(rank, step, "rng.python"): "of its own" for rank in (0, 1) for step in range(21, 61)}
    assert checks.matches_reference()(resumed(patch=patch)).outcome is Outcome.PASS
    moving = {(rank, step, name): f"{value}{step}" for (rank, step, name), value in patch.items()}
    assert checks.matches_reference()(resumed(patch=moving)).codes == ("rng-not-restored",)


def test_a_second_resume_of_a_run_that_had_left_the_reference():
    """What a lifetime that had diverged was at steps that it did not record is not known: it is not called lost."""
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, off={"optimizer": 0}, until=45).fault().died()
    other = {
        (rank, step, name): f"{name}!2.{step - 20}"
        for rank in (0, 1) for step in range(41, 61) for name in ("model", "optimizer", "ema", "buffers")
    }  # fmt: skip
    run.launch().live(base=40, patch=other, losses={(r, s): (7.0 * s).hex() for r in (0, 1) for s in range(41, 61)},
                      ends=True).exit(0).end()  # fmt: skip
    whole, case = run.case(), thin(run)
    assert checks.matches_reference()(whole).codes == ("optimizer-not-restored",)
    assert checks.matches_reference()(case).codes == ("optimizer-not-restored",)


def test_the_verdicts_of_judge_on_a_thin_run_are_those_on_a_whole_one():
    asked = [checks.matches_reference(), checks.state_restored(), checks.replicas_agree(), checks.same_data()]
    for off in (None, {"ema": 0}, {"batch": 0}):
        run = killed(off=off)
        whole, some = judge(run.case(), asked), judge(thin(run), asked)
        assert [(one.outcome, one.codes) for one in some] == [(one.outcome, one.codes) for one in whole]


def test_a_thin_record_ends_no_window():
    run = Writer().launch().live(until=25).fault().died().launch().live(base=20, until=45).exit(0)
    reference = Reference.of([run.control().history()] * 2)
    assert converged(run.history(), reference) is not None
    assert converged(run.thin(EVERY).history(), reference) is None


def test_a_record_without_the_mark_is_one_of_every_step():
    history = killed().history()
    assert not any(own.steps.thin for inc in history.incarnations for own in inc.ranks.values())
    thinned = History.of(killed().thin(EVERY).events)
    steps = thinned.incarnations[1].ranks[0].steps
    assert [step.n for step in steps if step.thin][:2] == [9, 11]
    assert set(steps[8].components) == {"lr", "batch"}
    assert set(steps[9].components) == set(NAMES)
    joined = steps.part(0, 12).followed_by(history.incarnations[1].ranks[0].steps.part(12, 40), more=0, later=0.0)
    assert [step.n for step in joined if step.thin] == [9, 11, 12]
    assert joined[20].components["model"] == truth("model", 0, 40)
