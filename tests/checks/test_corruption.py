"""What a corrupted number comes to: who noticed, where it got, what was done about it."""

import pytest

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case, judge
from chaoskit.errors import UsageError
from chaoskit.verdict import Outcome
from tests.checks.corrupted_runs import FINITE, STATE, left_out, off, rolled_back, stopped, unnoticed, wrong_losses
from tests.history_writer import NAMES, Writer, killed, loss, truth

PASS, FAIL, INCONCLUSIVE = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
ALL = [
    checks.detected_within(),
    checks.no_poisoned_checkpoint(),
    checks.not_spread(),
    checks.rolled_back_cleanly(),
    checks.returned_to_reference(),
]
named = pytest.mark.parametrize("check", ALL, ids=lambda check: check.name)


def said(check, run, reference=None):
    verdict = check(run.case(reference))
    return verdict.outcome, verdict.codes


# What there is to judge.


@named
def test_without_a_corrupted_number_nothing_is_tested(check):
    assert said(check, killed()) == (INCONCLUSIVE, ("fault-not-observed",))


@named
def test_without_a_reference_nothing_can_be_told(check):
    assert check(Case(stopped().history())).codes == ("reference-failed",)


@named
def test_a_corruption_that_was_refused_tested_nothing(check):
    run = Writer().launch().live(until=24)
    run.fault("nan", seen=False, evidence={"missed": "no parameter matches"}).live(base=20, ends=True).exit(
        0
    ).end()
    verdict = judge(run.case(), [check])[1]
    assert (verdict.outcome, verdict.codes) == (INCONCLUSIVE, ("fault-not-observed",))


@pytest.mark.parametrize("check", [ALL[0], ALL[2], ALL[3]], ids=lambda check: check.name)
def test_what_faded_tested_nothing(check):
    run = Writer().launch().live(strike={25: {"after": FINITE}}, ends=True).exit(0).end()
    verdict = check(run.case())
    assert (verdict.outcome, verdict.codes) == (INCONCLUSIVE, ("fault-not-observed",))
    assert verdict.evidence["corruptions"][0]["departure"] is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: checks.detected_within(steps=-1),
        lambda: checks.detected_within(steps=True),
        lambda: checks.rolled_back_cleanly(policy="ignored"),
        lambda: checks.returned_to_reference(within=-1),
        lambda: checks.returned_to_reference(band=float("nan")),
    ],
)
def test_bad_arguments_are_named(make):
    with pytest.raises(UsageError, match=r": (steps|policy|within|band) must be"):
        make()


@named
def test_it_can_be_stored_and_read_back(check):
    assert checks.from_json(check.to_json()) == check


# detected_within


def test_a_launch_that_ends_itself_has_noticed():
    verdict = ALL[0](stopped().case())
    what = "the gradient of head.weight[3, 7] of rank 1 was corrupted in step 25 (1.5 became nan)"
    assert verdict.outcome is PASS
    assert verdict.sentence == f"{what}; the job stopped by itself before the next step"


def test_an_update_that_is_left_out_was_noticed():
    verdict = ALL[0](left_out().case())
    assert verdict.outcome is PASS
    seen = verdict.evidence["corruptions"][0]["detection"]
    assert seen == {"how": "left-out", "step": 25, "after": 0}


def test_an_update_that_the_reference_leaves_out_too_shows_nothing():
    def tell(name, rank, position):
        return truth(name, rank, 25 if name in STATE and position == 24 else position)

    run = Writer(tell=tell).launch().live(strike={25: {}}, patch=off(27), losses=wrong_losses(27), ends=True)
    assert said(ALL[0], run.exit(0).end()) == (FAIL, ("corruption-accepted",))


def test_a_model_of_no_numbers_does_not_move_and_nobody_has_noticed():
    """Its bits stay the same from step to step: that is not to leave updates out."""
    patch = {(rank, step, "model"): "nan" for rank in (0, 1) for step in range(27, 61)}
    patch |= off(26, until=26) | off(27, names=("optimizer",))
    run = Writer().launch().live(strike={25: {}}, patch=patch, losses=wrong_losses(26, loss="nan"), ends=True)
    assert said(ALL[0], run.exit(0).end()) == (FAIL, ("nonfinite-accepted",))


NO_STATE = [name for name in NAMES if name not in ("optimizer", "scaler")]


def test_an_update_of_nothing_is_not_left_out():
    """A gradient that was made zero moves the model no more than one that is left out, and only the job's own doing
    counts; an optimizer that keeps nothing does not tell them apart."""
    assert said(ALL[0], left_out(names=NO_STATE, strike={"after": (0.0).hex()}))[0] is FAIL
    assert said(ALL[0], left_out(names=NO_STATE, leaves=[25])) == (PASS, ())


def test_an_update_that_moved_the_optimizer_alone_is_not_left_out():
    assert said(ALL[0], left_out(patch={(rank, 26, "optimizer"): "moved" for rank in (0, 1)}))[0] is FAIL


def test_a_rollback_was_noticed():
    assert said(ALL[0], rolled_back()) == (PASS, ())


def test_to_be_ended_by_another_fault_is_not_to_notice():
    run = Writer().launch().live(until=25, strike={25: {}}, losses={(1, 25): "nan"}).fault("kill rank 1").died()
    run.launch().live(base=20, ends=True).exit(0).end()
    assert said(ALL[0], run) == (FAIL, ("nonfinite-accepted",))


def test_what_is_noticed_too_late_is_explained():
    run = stopped(last=30)
    assert said(checks.detected_within(steps=5), run) == (PASS, ())
    verdict = ALL[0](run.case())
    assert (verdict.outcome, verdict.codes) == (FAIL, ("corruption-accepted",))
    assert verdict.sentence.endswith(
        "the run diverged from the reference in step 26, in model, optimizer, EMA of ranks 0, 1; detected: the job "
        "stopped by itself after 5 more steps; by then model, optimizer, EMA of ranks 0, 1 differed from the "
        "reference; the limit is 1"
    )


def test_nobody_noticed():
    run = unnoticed(ranks=(1,))
    run.tensors(26, "model", lambda rank: {"head.weight": str(rank), "head.bias": "0"})
    verdict = ALL[0](run.case())
    assert (verdict.outcome, verdict.codes) == (FAIL, ("corruption-accepted",))
    for part in (
        "corrupted in step 25 (1.5 became 1e+20)",
        "diverged from the reference in step 26, in model, optimizer, EMA, loss of rank 1 (head.weight)",
        "the first wrong loss is that of rank 1 in step 26: 7 instead of 0.0357143, a relative difference of 2e+02",
        "not detected in 35 more steps; by then model, optimizer, EMA, loss of rank 1 differed",
    ):
        assert part in verdict.sentence
    (told,) = verdict.evidence["corruptions"]
    assert told["spread"][0] == {"step": 26, "off": {"1": ["ema", "loss", "model", "optimizer"]}}


def test_what_is_no_number_has_its_own_code():
    run = Writer().launch().live(strike={25: {}}, patch=off(26), losses=wrong_losses(25, loss="nan"), ends=True)
    assert said(ALL[0], run.exit(0).end()) == (FAIL, ("nonfinite-accepted",))


def test_the_departure_of_a_job_that_is_not_deterministic_proves_nothing():
    shaky = [Writer(tell=lambda *at, n=n: f"{truth(*at)}#{n}").control().history() for n in (1, 2)]
    run = Writer(tell=lambda *at: f"{truth(*at)}#3").launch().live(strike={25: {}}, ends=True).exit(0).end()
    assert said(ALL[0], run, Reference.of(shaky)) == (INCONCLUSIVE, ("not-deterministic",))


# no_poisoned_checkpoint


def test_no_save_holds_it():
    assert said(ALL[1], stopped()) == said(ALL[1], rolled_back()) == said(ALL[1], left_out()) == (PASS, ())


def test_a_save_of_what_is_no_number():
    run = (
        Writer()
        .launch()
        .live(until=26, strike={25: {}}, patch=off(26))
        .save(nonfinite=["model.head.weight"])
        .died()
    )
    verdict = ALL[1](run.launch().live(base=20, ends=True).exit(0).end().case())
    assert verdict.codes == ("poisoned-checkpoint",)
    assert "rank 0 saved a non-finite value at step 26: model.head.weight" in verdict.sentence


def test_what_was_saved_before_is_no_concern():
    run = Writer().launch().live(until=24).save(nonfinite=["mask"]).corrupted(25).died()
    assert said(ALL[1], run.launch().live(base=20, ends=True).exit(0).end()) == (PASS, ())


def test_where_nothing_was_saved_afterwards_no_save_was_tested():
    run = Writer().launch().live(until=20, ends=False).corrupted(21).died().end("gave-up")
    assert said(ALL[1], run) == (INCONCLUSIVE, ("fault-not-observed",))


def content(rank, position):
    return {"model.w": f"{position:032x}", "tries": f"={position}"}


def spoilt(since):
    """Contents that are wrong from a position on, until a new launch goes on from before it."""
    return lambda rank, position: {
        **content(rank, position),
        "model.w": f"{position + (position >= since) * 999:032x}",
    }


def reference_of(told):
    controls = [Writer(content=told).control().history() for _ in range(2)]
    return Reference.of(controls)


def test_a_finite_wrong_number_in_a_save():
    verdict = ALL[1](unnoticed(content=spoilt(40)).case(reference_of(content)))
    assert verdict.codes == ("corruption-saved",)
    assert verdict.evidence["keys"] == ["model.w"]
    assert "what rank 0 saved at step 40 differs" in verdict.sentence


def test_without_contents_the_live_state_tells():
    assert said(ALL[1], unnoticed()) == (FAIL, ("corruption-saved",))


def test_what_differs_after_a_way_back_to_a_right_state_has_come_from_elsewhere():
    """No corrupted number reached the state that the job went back to; other random numbers made the rest differ."""
    assert said(ALL[1], stopped(off={"rng.torch": 0})) == (PASS, ())
    assert policy_of(stopped(off={"rng.torch": 0}))[2] == ("rng-not-restored",)
    # And killed again, it goes on from what it saved then.
    drifted = {(rank, 41, name): f"{name}!2.21" for rank in (0, 1) for name in (*STATE, "buffers")}
    run = Writer().launch().live(until=24).corrupted(25).died()
    run.launch().live(base=20, until=45, off={"rng.torch": 0}).died()
    run.launch().live(base=40, off={"rng.torch": 0}, patch=drifted, ends=True).exit(0).end()
    assert said(ALL[1], run) == (PASS, ())


@pytest.mark.parametrize("lost", ["optimizer", "ema", "model"])
def test_what_differs_after_a_way_back_to_a_wrong_state_may_be_the_corrupted_number(lost):
    assert said(ALL[1], stopped(off={lost: "corrupt"})) == (FAIL, ("corruption-saved",))


def test_a_counter_of_what_went_wrong_may_differ():
    def told(rank, position):
        return {**content(rank, position), "tries": "=99"}

    run = stopped()
    again = Writer(content=told).launch().live(until=24).corrupted(25).died().launch().live(base=20, ends=True)
    assert said(ALL[1], again.exit(0).end(), reference_of(content)) == (PASS, ())
    assert said(ALL[1], run) == (PASS, ())


def test_what_a_job_that_skipped_saves_later_is_its_own():
    assert said(ALL[1], rolled_back(omitted=[25])) == (PASS, ())


def test_a_dump_for_the_post_mortem_is_no_checkpoint():
    run = (
        Writer()
        .launch()
        .live(until=24)
        .corrupted(25)
        .save(path="postmortem/step-{}", nonfinite=["model.a"])
        .ended()
    )
    run.died().launch().live(base=20, ends=True).exit(0).end()
    assert said(ALL[1], run) == (PASS, ())
    assert said(checks.resumed_from_last_valid(), run) == (PASS, ())


def test_a_dump_that_is_read_again_is_a_checkpoint():
    run = (
        Writer()
        .launch()
        .live(until=24)
        .corrupted(25)
        .save(path="postmortem/step-{}", nonfinite=["model.a"])
        .ended()
    )
    run.died().launch().live(base=20, ends=True).load("postmortem/step-24").exit(0).end()
    assert said(ALL[1], run) == (FAIL, ("poisoned-checkpoint",))


# not_spread


def test_what_stays_on_its_rank_has_not_spread():
    assert said(ALL[2], unnoticed(ranks=(1,))) == (PASS, ())


def test_what_reaches_another_rank_has():
    verdict = ALL[2](unnoticed().case())
    assert verdict.codes == ("corruption-spread",)
    assert verdict.sentence.startswith(
        "by step 26 it had spread to rank 0, in model, optimizer, EMA, loss: the gradient of head.weight"
    )


def test_what_differs_once_it_was_noticed_is_the_doing_of_the_job():
    assert said(ALL[2], left_out()) == (PASS, ())


def test_where_every_rank_was_struck_there_is_no_other():
    strike = {"others": [{"rank": 0}]}
    assert said(ALL[2], unnoticed(strike=strike)) == (INCONCLUSIVE, ("fault-not-observed",))


# rolled_back_cleanly


def policy_of(run):
    verdict = ALL[3](run.case())
    return verdict.outcome, verdict.evidence.get("policy"), verdict.codes


@pytest.mark.parametrize("make", [stopped, rolled_back, lambda: stopped(last=30), lambda: rolled_back(at=33)])
def test_retried(make):
    assert policy_of(make()) == (PASS, "retried", ())
    assert said(checks.rolled_back_cleanly(policy="retried"), make()) == (PASS, ())


def test_a_retry_that_lost_something():
    assert policy_of(stopped(off={"rng.torch": 0}))[2] == ("rng-not-restored",)
    assert policy_of(stopped(off={"batch": 30}))[2][0].startswith("data-")
    assert policy_of(stopped(off={"optimizer": 0}))[2] == ("optimizer-not-restored",)


def test_a_retry_that_parts_later():
    assert policy_of(stopped(patch=None, losses={(0, 50): (3.0).hex()})) == (FAIL, "retried", ("loss-diverged",))


def test_to_go_back_to_what_was_saved_after_it_is_no_way_back():
    run = Writer().launch().live(until=43, strike={35: {}}, patch=off(36, until=43)).died()
    first = {(rank, 41, name): f"{name}!41" for rank in (0, 1) for name in STATE}
    run.launch().live(base=40, patch={**off(42), **first}, ends=True).exit(0).end()
    verdict = ALL[3](run.case())
    assert verdict.codes == ("corruption-accepted",)
    assert "saved after that" in verdict.sentence


def test_skipped_is_the_reference_up_to_what_is_left_out():
    run = rolled_back(omitted=[25], patch={(0, 22, "optimizer"): "another", (0, 23, "model"): "another"})
    verdict = ALL[3](run.case())
    assert verdict.codes == ("optimizer-not-restored",)
    assert "in step 22, optimizer of rank 0" in verdict.sentence


def test_skipped_at_a_lower_rate_is_another_run():
    lowered = {(rank, step, "lr"): "half" for rank in (0, 1) for step in range(21, 60)}
    run = rolled_back(omitted=[25], patch={**lowered, **off(22, until=59)})
    assert policy_of(run) == (PASS, "skipped", ())


def test_skipped():
    run = rolled_back(omitted=[25])
    assert policy_of(run) == (PASS, "skipped", ())
    verdict = ALL[3](run.case())
    assert verdict.evidence["skipped"] == [25]
    assert "skipped: back to step 20, without the batches of step 25" in verdict.sentence
    assert verdict.evidence["skipped"] == [25]
    assert said(checks.completed(), run) == (PASS, ())


def test_a_learning_rate_may_be_lowered_after_a_rollback():
    patch = {(rank, step, "lr"): f"half@{step}" for rank in (0, 1) for step in range(21, 60)}
    assert policy_of(rolled_back(omitted=[25], patch=patch)) == (PASS, "skipped", ())


def test_batches_left_out_that_were_not_bad():
    run = rolled_back(omitted=[25])
    patch = {(rank, step, "batch"): truth("batch", rank, step + 3) for rank in (0, 1) for step in range(30, 57)}
    assert policy_of(rolled_back(omitted=[25], until=56, patch=patch))[2] == ("data-skipped",)
    assert policy_of(run)[0] is PASS


def test_a_bad_batch_that_comes_again_after_all():
    patch = {(rank, 40, "batch"): truth("batch", rank, 24) for rank in (0, 1)}
    assert policy_of(rolled_back(omitted=[25], patch=patch))[2] == ("data-replayed",)


def test_a_state_that_was_not_put_back_before_skipping():
    run = rolled_back(omitted=[25], patch={(1, 21, "optimizer"): "optimizer?"})
    assert policy_of(run)[2] == ("optimizer-not-restored",)


def test_update_skipped():
    assert policy_of(left_out()) == (PASS, "update-skipped", ())


def test_an_update_left_out_whose_scaler_and_rate_have_gone_on_already():
    patch = {(rank, 25, name): f"{name}@later" for rank in (0, 1) for name in ("scaler", "lr")}
    assert policy_of(left_out(patch=patch)) == (PASS, "update-skipped", ())


def test_an_update_that_moved_the_optimizer_all_the_same():
    run = left_out(patch={(1, 26, "optimizer"): "optimizer!"}, leaves=[25])
    assert policy_of(run) == (FAIL, "update-skipped", ("optimizer-not-restored",))


@pytest.mark.parametrize(
    ("name", "code"), [("lr", "lr-schedule-off"), ("rng.torch", "rng-not-restored"), ("batch", "data-differs")]
)
def test_what_has_to_go_on_as_in_the_reference(name, code):
    run = left_out(patch={(rank, step, name): f"other.{rank}.{step}" for rank in (0, 1) for step in range(26, 61)})
    assert policy_of(run) == (FAIL, "update-skipped", (code,))


def test_an_update_left_out_too_late():
    run = Writer().launch()
    patch = {**off(26), **{(rank, 28, name): f"{name}!27" for rank in (0, 1) for name in STATE}}
    run.live(strike={25: {}}, patch=patch, losses=wrong_losses(26), ends=True).exit(0).end()
    assert policy_of(run) == (FAIL, "update-skipped", ("corruption-accepted",))


@pytest.mark.parametrize(
    ("policy", "make", "code"),
    [
        ("retried", lambda: rolled_back(omitted=[25]), "data-skipped"),
        ("skipped", rolled_back, "data-replayed"),
        ("update-skipped", rolled_back, "needless-restart"),
        ("retried", left_out, "loss-diverged"),
    ],
)
def test_another_policy_than_was_declared(policy, make, code):
    assert said(checks.rolled_back_cleanly(policy=policy), make()) == (FAIL, (code,))


def test_nothing_was_done_about_it():
    assert policy_of(unnoticed()) == (FAIL, None, ("corruption-accepted",))


def test_a_job_that_never_came_back():
    run = Writer().launch().live(until=24).corrupted(25).died().launch().died().end("gave-up")
    assert policy_of(run) == (FAIL, None, ("crash-loop",))


# returned_to_reference


def test_the_losses_come_back():
    for run in (stopped(), rolled_back(), stopped(last=30)):
        assert said(ALL[4], run) == (PASS, ())


def test_the_losses_do_not_come_back():
    verdict = ALL[4](unnoticed().case())
    assert verdict.codes == ("loss-diverged",)
    assert verdict.sentence.startswith("the loss of rank 0 in step 26 has a relative difference of 0.995: ")


def test_losses_that_are_no_numbers():
    run = Writer().launch().live(strike={25: {}}, patch=off(26), losses=wrong_losses(25, loss="nan"), ends=True)
    assert said(ALL[4], run.exit(0).end()) == (FAIL, ("nonfinite-accepted", "loss-diverged"))


def test_a_band_and_a_time():
    near = {
        (rank, step): (float.fromhex((1.0 / (step + rank + 1)).hex()) * 1.01).hex()
        for rank in (0, 1)
        for step in range(30, 61)
    }
    losses = {**wrong_losses(26, until=29), **near}
    run = (
        Writer()
        .launch()
        .live(strike={25: {"after": FINITE}}, patch=off(26), losses=losses, ends=True)
        .exit(0)
        .end()
    )
    assert said(checks.returned_to_reference(within=5, band=0.02), run) == (PASS, ())
    assert said(checks.returned_to_reference(within=4, band=0.02), run) == (FAIL, ("loss-diverged",))
    assert said(checks.returned_to_reference(within=5, band=0.001), run) == (FAIL, ("loss-diverged",))


def test_after_batches_were_left_out_the_step_with_the_same_data_counts():
    due = [step for step in range(21, 61) if step != 25]
    losses = {(rank, 21 + n): loss(rank, step) for rank in (0, 1) for n, step in enumerate(due)}
    assert said(checks.returned_to_reference(band=1e-9), rolled_back(omitted=[25], losses=losses)) == (PASS, ())


# The other checks, where a job has gone back in its processes.


@pytest.mark.parametrize(
    "check",
    [
        checks.completed(),
        checks.resumed_from_last_valid(),
        checks.state_restored(),
        checks.same_data(),
        checks.matches_reference(),
        checks.lr_schedule_kept(),
        checks.recovered_within(steps=10),
        checks.stays_finite(),
        checks.replicas_agree(),
    ],
    ids=lambda check: check.name,
)
@pytest.mark.parametrize("make", [rolled_back, stopped, lambda: stopped(last=30)])
def test_a_job_that_went_back_and_tried_again_is_the_reference(check, make):
    verdict = check(make().case())
    assert verdict.outcome is PASS, verdict


@pytest.mark.parametrize("check", [checks.checkpoints_faithful(), ALL[1]], ids=lambda check: check.name)
def test_what_was_saved_and_read_is_right_too(check):
    run = Writer(content=content).launch().live(until=24).corrupted(25)
    run.live(base=20, back=True, ends=True).exit(0).end()
    for event in run.events:
        if event.kind == "load.end":
            event.data["content"] = content(0, 20)
    assert said(check, run, reference_of(content)) == (PASS, ())


def test_a_rollback_that_lost_something_is_a_resume_like_any_other():
    run = rolled_back(off={"optimizer": 0}, drift=False)
    assert checks.state_restored()(run.case()).codes == ("optimizer-not-restored",)


def test_what_it_cost_is_measured():
    (one,) = rolled_back().case().recoveries
    assert (one.resumed_from, one.last_valid, one.relaunches, one.restarts, one.ridden_out) == (
        20,
        20,
        0,
        0,
        False,
    )
    assert one.steps_lost == 4
