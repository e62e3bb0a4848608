"""Jobs that shrink and grow: judged across world sizes, right where they are right and by the right code where not."""

import pytest

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.errors import UsageError
from chaoskit.report.story import story
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, truth

ONCE, KEPT, RATES = checks.samples_exactly_once(), checks.global_batch_kept(), checks.lr_schedule_kept()
EVERY = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.matches_reference(band=0.02), checks.stays_finite(), ONCE, KEPT, RATES,
)  # fmt: skip
TRAINED = ("model", "optimizer", "ema")


def samples(rank, position):
    return [f"{position:03d}.{rank}.{i}" for i in range(4)]


def rate(position):
    return (1e-3 * (1 - position / 200)).hex()


def tell(name, rank, position):
    return rate(position) if name == "lr" else truth(name, rank, position)


def writer(**options):
    options = {"samples": samples, "tell": tell, "names": NAMES} | options
    return Writer(**options)


NAMES = ("model", "buffers", "optimizer", "lr", "ema", "rng.torch", "rng.python", "batch")


def shrunk(*, every=20, sharded=(), hold=False, ranks=2, **second):
    """Two ranks, of which one is lost at step 25; one goes on."""
    run = (
        writer(every=every, sharded=sharded, hold=hold, ranks=ranks)
        .launch()
        .live(until=25)
        .fault("kill node1")
        .died()
    )
    return run.launch().live(**{"base": 20, "world": 1, "ends": True} | second).exit(0).end()


def regrown(*, base=45, third=None, **options):
    """And back, from a checkpoint that is written on being told to go."""
    run = writer(sharded=options.pop("sharded", ()), hold=options.pop("hold", True))
    run.launch().live(until=25).fault("kill node1").died()
    run.launch().live(base=20, world=1, until=45).save().ended().fault("grow").died()
    return run.launch().live(**{"base": base, "since": 20, "ends": True} | (third or {})).exit(0).end()


def verdicts(case, *asked):
    return {verdict.check: verdict for verdict in checks.judge(case, asked or EVERY)}


def row(case, incarnation, rank=0):
    return next(one["cells"] for one in case.table() if (one["incarnation"], one["rank"]) == (incarnation, rank))


@pytest.mark.parametrize("sharded", [(), TRAINED])
def test_a_job_that_shrinks_and_does_right(sharded):
    case = shrunk(sharded=sharded).case()
    found = verdicts(case)
    assert {name: verdict.sentence for name, verdict in found.items() if verdict.outcome is not Outcome.PASS} == {}
    assert {row(case, 1)[name] for name in ("model", "optimizer", "lr", "batch", "ema")} == {"20"}
    assert "with 1 rank (the reference has 2)" in found["state_restored"].sentence
    assert "steps 21…60 were trained with 1 rank" in found["matches_reference"].sentence
    assert (case.timeline.base(1), list(case.timeline.resized)) == (20, [1])


@pytest.mark.parametrize("sharded", [(), TRAINED])
def test_a_job_that_grows_back_and_does_right(sharded):
    """The checkpoint of step 45 is the last thing that one rank did, so that what it held is known from the save."""
    case = regrown(sharded=sharded).case()
    found = verdicts(case)
    assert {name: verdict.sentence for name, verdict in found.items() if verdict.outcome is not Outcome.PASS} == {}
    assert (row(case, 2, 1)["model"], row(case, 2, 1)["batch"]) == ("45", "45")
    assert list(case.timeline.resized) == [1, 2]


def test_a_job_that_grows_beyond_the_reference():
    case = shrunk(world=3, sharded=TRAINED).case()
    found = verdicts(case)
    assert {name: verdict.sentence for name, verdict in found.items() if verdict.outcome is not Outcome.PASS} == {}
    assert row(case, 1, 2)["model"] == "20" and "rng" not in row(case, 1, 2)


def test_what_was_held_at_the_last_save_is_needed():
    case = regrown(hold=False).case()
    assert case.timeline.base(2) == 45  # told by what does not hang on bits
    verdict = verdicts(case)["state_restored"]
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))
    assert "the model at step 45 was not recorded at the other world size" in verdict.sentence


def test_without_its_parts_a_sharded_model_cannot_be_compared():
    run = shrunk(sharded=("model",))
    for one in run.events:
        one.data.pop("parts", None)
    control = run.control()
    for one in control.events:
        one.data.pop("parts", None)
    case = run.case(reference_of(control))
    verdict = verdicts(case)["state_restored"]
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))
    assert "CHAOSKIT_ELASTIC=1" in verdict.sentence


def reference_of(*controls, times=2):
    return Reference.of([one.history() for one in controls] * times)


def test_back_to_a_checkpoint_from_before_the_bits_are_the_reference_s_again():
    """Nothing was saved by the one rank: two resume from what two had saved."""
    run = writer().launch().live(until=25).fault("kill node1").died()
    run.launch().live(base=20, world=1, until=30).fault("grow").died()
    case = run.launch().live(base=20, ends=True).exit(0).end().case()
    found = verdicts(case)
    assert {name: verdict.sentence for name, verdict in found.items() if verdict.outcome is not Outcome.PASS} == {}
    assert list(case.timeline.resized) == [1]
    run = writer().launch().live(until=25).fault("kill node1").died()
    run.launch().live(base=20, world=1, until=30).fault("grow").died()
    case = run.launch().live(base=20, ends=True, patch={(0, 41, "model"): "odd"}).exit(0).end().case()
    assert verdicts(case)["matches_reference"].outcome is Outcome.FAIL


def test_a_job_that_begins_small():
    run = writer(every=20).launch().live(world=1, until=25).fault("grow").died()
    case = run.launch().live(base=20, since=0, ends=True).exit(0).end().case()
    found = verdicts(case)
    assert {name: verdict.sentence for name, verdict in found.items() if verdict.outcome is not Outcome.PASS} == {}
    assert case.timeline.departure is None and list(case.timeline.resized) == [0, 1]


def test_a_job_that_is_killed_again_while_it_is_small():
    """Past the change the run itself is the measure: of the one rank's second life too."""
    run = writer(sharded=TRAINED).launch().live(until=25).fault("kill node1").died()
    run.launch().live(base=20, world=1, until=50).fault().died()
    run.launch().live(base=40, world=1, since=20, ends=True).exit(0).end()
    found = verdicts(run.case())
    assert {name: verdict.sentence for name, verdict in found.items() if verdict.outcome is not Outcome.PASS} == {}
    assert run.case().timeline.rolled_back == 2 * 5 + 10


def test_the_story_of_such_a_run_names_no_stream_that_says_nothing():
    case = shrunk(sharded=TRAINED).case()
    told = [str(one) for one in story(case, tuple(verdicts(case).values()))]
    assert any("incarnation 1: 1 of 1 ranks start" in line for line in told)
    assert any("model, buffers, optimizer, LR, EMA, RNG python, data from step 20" in line for line in told), told


def test_which_execution_of_a_step_was_kept():
    """Rank 1 took steps 21 to 25, which the one rank that was left has taken again."""
    timeline = shrunk().case().timeline
    assert (timeline.kept(0, 23).incarnation, timeline.kept(1, 23), timeline.kept(1, 20).incarnation) == (
        1,
        None,
        0,
    )
    assert timeline.missing(1, 60) == [] and timeline.highest(1) == 60
    assert timeline.rolled_back == 10
    grown = regrown().case().timeline
    assert (grown.kept(0, 44).incarnation, grown.kept(1, 44), grown.kept(1, 46).incarnation) == (1, None, 2)
    assert grown.missing(1, 60) == []


def test_controls_that_differ_and_a_job_that_shrinks():
    """The losses of the reference's size lie within the spread, those of the other within the band."""
    controls = [
        writer(tell_loss=lambda rank, step, by=by: (1 / (step + rank + 1) + by * 1e-6).hex()).control()
        for by in range(4)
    ]
    case = shrunk().case(reference_of(*controls, times=1))
    found = verdicts(case)
    assert case.reference.statistical
    assert {name: verdict.sentence for name, verdict in found.items() if verdict.outcome is not Outcome.PASS} == {}
    assert verdicts(shrunk(wobble=0.05).case(case.reference))["matches_reference"].codes == ("loss-diverged",)
    rough = verdicts(case, checks.matches_reference(rtol=1e-3, band=0.02))["matches_reference"]
    assert rough.outcome is Outcome.PASS


# What goes wrong.


@pytest.mark.parametrize("sharded", [(), TRAINED])
@pytest.mark.parametrize(
    ("off", "code"),
    [
        ({"optimizer": 0}, "optimizer-not-restored"),
        ({"optimizer": "fresh"}, "optimizer-not-restored"),
        ({"model": "torn"}, "model-not-restored"),
        ({"ema": 0}, "ema-not-restored"),
        ({"lr": 40}, "lr-schedule-off"),
        ({"lr": 0}, "lr-schedule-off"),
        ({"rng.torch": 0}, None),
    ],
)
def test_what_was_not_restored_is_told(sharded, off, code):
    case = shrunk(sharded=sharded, off=off).case()
    verdict = verdicts(case, checks.state_restored())["state_restored"]
    assert verdict.codes == ((code,) if code else ())
    assert code is None or "restored from step 20" in verdict.sentence


def test_a_stream_that_begins_again_is_told_and_one_that_is_drawn_from_otherwise_is_not():
    """Of one rank more is drawn in a step, so that its stream is where the reference's is later."""
    early = {(0, 21, "rng.torch"): truth("rng.torch", 0, 1)}
    verdict = verdicts(shrunk(patch=early).case(), checks.state_restored())["state_restored"]
    assert verdict.codes == ("rng-not-restored",)
    for position in (19, 21):
        case = shrunk(patch={(0, 21, "rng.torch"): truth("rng.torch", 0, position)}).case()
        assert verdicts(case, checks.state_restored())["state_restored"].outcome is Outcome.PASS


@pytest.mark.parametrize("sharded", [(), TRAINED])
def test_from_scratch(sharded):
    case = shrunk(base=0, sharded=sharded).case()
    found = verdicts(case, checks.resumed_from_last_valid(), checks.state_restored())
    assert found["resumed_from_last_valid"].codes == ("restarted-from-scratch",)
    assert found["state_restored"].codes == ("restarted-from-scratch",)
    assert row(case, 1)["model"] == "0"


def test_from_an_older_checkpoint_and_after_growing_back():
    stale = shrunk(base=10, every=10).case()
    assert verdicts(stale)["resumed_from_last_valid"].codes == ("stale-checkpoint",)
    back = regrown(base=40).case()
    assert verdicts(back)["resumed_from_last_valid"].codes == ("stale-checkpoint",)
    off = regrown(third={"off": {"optimizer": 20}}).case()
    assert verdicts(off)["state_restored"].codes == ("optimizer-not-restored",)


def test_one_rank_of_the_grown_job_that_was_not_restored():
    case = regrown(third={"off": {(1, "model"): 0}}).case()
    found = verdicts(case)
    assert found["state_restored"].codes == ("model-not-restored",)
    assert "rank 1" in found["state_restored"].sentence and "every rank" not in found["state_restored"].sentence


def test_models_of_replicas_that_drift_apart():
    case = regrown(third={"patch": {(1, 50, "model"): "drifted"}}).case()
    verdict = verdicts(case)["matches_reference"]
    assert verdict.codes == ("ranks-diverged",) and "step 50" in verdict.sentence


# Data.


def replayed(position):
    """Where in the epoch it was is counted in batches, and one rank's batch is another one: ten steps are lost."""
    back = position - 10
    return [one for rank in (0, 1) for one in samples(rank, back)]


def test_data_that_is_replayed_or_skipped():
    found = verdicts(shrunk(consume=replayed).case())
    assert found["samples_exactly_once"].codes == ("data-replayed",)
    assert found["same_data"].codes == ("data-replayed",) and found["state_restored"].codes == ("data-replayed",)
    evidence = found["samples_exactly_once"].evidence["ledger"]
    assert (evidence["replayed"], evidence["repeated"][0]) == (80, "010.0.0")
    skipped = shrunk(consume=lambda position: replayed(position + 20)).case()
    found = verdicts(skipped)
    assert found["samples_exactly_once"].codes[0] == "data-skipped"
    assert found["samples_exactly_once"].evidence["ledger"]["lost"][0] == "020.0.0"


def test_one_sample_too_many_and_one_too_few():
    def swapped(position):
        own = [one for rank in (0, 1) for one in samples(rank, position)]
        return [*own[:-1], "007.0.0"] if position == 33 else own

    verdict = verdicts(shrunk(consume=swapped).case())["samples_exactly_once"]
    assert verdict.codes == ("data-replayed", "data-skipped")
    assert verdict.evidence["ledger"]["repeated"] == ["007.0.0"]
    assert verdict.evidence["ledger"]["lost"] == ["033.1.3"]
    assert "first at step 34, rank 0: that of step 8" in verdict.sentence


def test_samples_that_the_reference_never_has():
    def foreign(position):
        return [f"?{one}" for rank in (0, 1) for one in samples(rank, position)]

    verdict = verdicts(shrunk(consume=foreign).case())["samples_exactly_once"]
    assert verdict.codes == ("data-differs",)


def test_samples_that_could_not_be_told_apart():
    run = writer(samples=None).launch().live(until=25).fault().died()
    case = run.launch().live(base=20, world=1, ends=True).exit(0).end().case()
    found = verdicts(case)
    for name in ("samples_exactly_once", "same_data", "global_batch_kept"):
        assert (found[name].outcome, found[name].codes) == (Outcome.INCONCLUSIVE, ("probe-blind",)), name
    assert found["lr_schedule_kept"].outcome is Outcome.PASS
    assert found["state_restored"].outcome is Outcome.PASS and "data" not in found["state_restored"].sentence


def test_the_trainer_whose_global_batch_follows_the_world_size():
    """world-batch: half as many samples a step, and a schedule over twice as many."""

    def half(position):
        first = 20 * 8 + (position - 20) * 4
        return [sample for at in range(first, first + 4) for sample in [samples(at % 8 // 4, at // 8)[at % 4]]]

    patch = {(0, step, "lr"): rate(10 + (step - 1) / 2) for step in range(21, 61)}
    found = verdicts(shrunk(consume=half, patch=patch).case())
    assert found["global_batch_kept"].codes == ("global-batch-changed",)
    first = found["global_batch_kept"].evidence["wrong"][0]
    assert first == {"step": 21, "incarnation": 1, "ranks": 1, "samples": 4}
    assert found["lr_schedule_kept"].codes == ("lr-schedule-off",)
    assert found["samples_exactly_once"].codes == ("data-skipped",)


def test_the_trainer_that_skips_batches_and_not_samples():
    """world-skip: after 20 batches of eight, it skips 20 of four."""
    found = verdicts(shrunk(consume=replayed).case())
    assert found["samples_exactly_once"].codes == ("data-replayed",)
    assert found["global_batch_kept"].outcome is found["lr_schedule_kept"].outcome is Outcome.PASS


def test_the_trainer_whose_schedule_counts_steps_times_processes():
    """sched-times-world: with one process the schedule goes on at half the pace; the first step is still right."""
    patch = {(0, step, "lr"): rate(20 + (step - 21) / 2) for step in range(21, 61)}
    found = verdicts(shrunk(patch=patch).case())
    assert found["lr_schedule_kept"].codes == ("lr-schedule-off",)
    assert "rank 0 took step 22 with learning rate" in found["lr_schedule_kept"].sentence
    assert found["samples_exactly_once"].outcome is found["global_batch_kept"].outcome is Outcome.PASS
    assert found["matches_reference"].codes == ("lr-schedule-off",)


# Losses.


def test_without_a_band_nothing_is_said_of_losses():
    verdict = verdicts(shrunk().case(), checks.matches_reference())["matches_reference"]
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("not-deterministic",))
    assert "set band=" in verdict.sentence


def test_losses_outside_the_band():
    verdict = verdicts(shrunk(wobble=0.05).case())["matches_reference"]
    assert verdict.codes == ("loss-diverged",) and verdict.evidence["outside"][0]["gap"] > 0.02
    verdict = verdicts(regrown(third={"wobble": 0.5}).case())["matches_reference"]
    assert verdict.codes == ("loss-diverged",) and "the loss of step 46" in verdict.sentence


def test_a_loss_is_the_sum_over_backwards_and_the_mean_over_ranks():
    """Four backwards of a quarter on one rank are two of a half on each of two."""
    run = writer(tell_loss=lambda rank, step: (0.5).hex())
    run.launch().live(until=25).fault().died()
    four = {(0, step): [(0.125).hex()] * 4 for step in range(21, 61)}
    run.launch().live(base=20, world=1, ends=True).exit(0).end()
    for event in run.events:
        if event.kind == "step" and event.source == "rank-0-2":
            event.data["losses"] = four[0, 20 + event.data["n"]]
    verdict = verdicts(run.case())["matches_reference"]
    assert verdict.outcome is Outcome.PASS and verdict.evidence["worst"]["gap"] == 0.0


def test_what_came_before_the_change_is_held_to_the_bit():
    run = writer().launch().live(until=25, losses={(0, 7): (0.3).hex()}).fault().died()
    case = run.launch().live(base=20, world=1, ends=True).exit(0).end().case()
    assert verdicts(case)["matches_reference"].outcome is not Outcome.PASS


def test_a_loss_that_is_not_a_number():
    case = shrunk(losses={(0, 30): "nan"}).case()
    assert verdicts(case)["matches_reference"].codes == ("nonfinite-accepted",)
    assert verdicts(case, checks.matches_reference())["matches_reference"].codes == ("nonfinite-accepted",)


@pytest.mark.parametrize("band", [-0.1, 1, True, "0.1"])
def test_a_band_that_is_none(band):
    with pytest.raises(UsageError, match="band"):
        checks.matches_reference(band=band)


# At one world size.


def test_the_three_checks_at_one_world_size():
    right = writer().launch().live(until=25).fault().died().launch().live(base=20, ends=True).exit(0).end().case()
    assert {verdict.outcome for verdict in verdicts(right, ONCE, KEPT, RATES).values()} == {Outcome.PASS}
    wrong = writer().launch().live(until=25).fault().died()
    wrong.launch().live(base=20, ends=True, off={"batch": 10, "lr": 40}, drift=False).exit(0).end()
    found = verdicts(wrong.case(), ONCE, KEPT, RATES)
    assert found["samples_exactly_once"].codes == ("data-replayed",)
    assert found["lr_schedule_kept"].codes == ("lr-schedule-off",)
    assert "(that of step 41)" in found["lr_schedule_kept"].sentence
    assert found["global_batch_kept"].outcome is Outcome.PASS


def test_order_is_not_claimed():
    run = writer().launch().live(until=25).fault().died()
    run.samples = lambda rank, position: samples(1 - rank, position)
    case = run.launch().live(base=20, ends=True, patch={(0, 30, "batch"): "other"}).exit(0).end()
    case = case.case(reference_of(writer().control()))
    found = verdicts(case, ONCE, checks.same_data())
    assert found["samples_exactly_once"].outcome is Outcome.PASS
    assert found["same_data"].codes == ("data-reordered",)


def test_a_job_that_ended_early_and_one_that_was_not_seen():
    run = shrunk(**{"ends": False, "until": 50})
    found = verdicts(run.case(), ONCE, KEPT, RATES, checks.completed())
    assert found["completed"].codes == ("exited-early",)
    assert found["samples_exactly_once"].outcome is Outcome.FAIL
    assert found["global_batch_kept"].codes == found["lr_schedule_kept"].codes == ("exited-early",)
    blind = shrunk(off={"lr": None}, drift=False).case()
    assert verdicts(blind)["lr_schedule_kept"].codes == ("probe-blind",)


def test_what_the_checkpoints_held():
    """Streams of ranks and shards become others; a count of tokens must not."""

    def content(rank, position):
        return {
            "tokens": f"={position * 100}",
            "model.w": f"{position:032x}",
            "rng": f"{position + 999 * rank:032x}",
        }

    def run(tokens):
        made = writer(content=content).launch().live(until=25).fault().died()
        made.content = lambda rank, position: {**content(rank, position), "tokens": f"={tokens(position)}"}
        made.launch().live(base=20, world=1, ends=True).load("step-20.pt", content=lambda rank: content(0, 20))
        made.exit(0).end()
        made.content = content
        return made.case()

    faithful = checks.checkpoints_faithful()
    assert faithful(run(lambda p: p * 100)).outcome is Outcome.PASS
    verdict = faithful(run(lambda p: p * 50))
    assert verdict.codes == ("extra-state-not-restored",) and "tokens" in verdict.sentence
