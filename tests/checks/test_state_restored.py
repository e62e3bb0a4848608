"""`state_restored`: every component by its own name, and nothing that was restored accused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.analysis.diagnosis import CODES
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import matches_reference, state_restored
from chaoskit.verdict import Outcome
from tests.history_writer import NAMES, Writer, killed, truth

check = state_restored()
MOVING = [name for name in NAMES if name != "rng.python"]


def code(name):
    return "data-replayed" if name == "batch" else CODES[name.partition(".")[0]]


def plain(codes):
    """The codes, whether or not anything depends on a stream."""
    return {code.replace("rng-unused-", "rng-") for code in codes}


def test_an_exact_resume_passes():
    verdict = check(killed().case())
    assert verdict.outcome is Outcome.PASS
    assert "step 20" in verdict.sentence


def test_an_exact_resume_from_a_stale_checkpoint_is_still_exact():
    assert check(killed(at=45).case()).outcome is Outcome.PASS


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("where", [0, "nowhere"])
def test_each_component_has_its_code(name, where):
    verdict = check(killed(off={name: where}).case())
    expected = "data-differs" if name == "batch" and where else code(name)
    assert verdict.codes == (expected,)
    assert verdict.evidence["expected"] == {"1": 20}
    assert "restored from step 20" in verdict.sentence


def test_the_sentence_says_which_rank_and_where_it_is():
    verdict = check(killed(off={(1, "rng.torch"): 0}).case())
    assert verdict.sentence.startswith("rank 1: RNG not restored (torch CPU stream is that of step 0); model, ")


def test_what_an_unfinished_save_lacked_is_said_of_it():
    said = "; the fault had left the save of step 40 unfinished, and the job resumed from it"

    def resumed(*, torn, base=40):
        run = Writer().launch().live(until=40, torn=torn).fault().died()
        run.launch().live(base=base, off={(1, "rng.torch"): 0}, ends=True).exit(0).end()
        return check(run.case())

    assert resumed(torn=True).sentence.endswith(said) and resumed(torn=True).codes == ("rng-not-restored",)
    assert all(said not in resumed(**other).sentence for other in ({"torn": False}, {"torn": True, "base": 20}))


def test_the_table_shows_what_matches_what():
    row = check(killed(off={"lr": 45, "ema": "none"}).case()).evidence["table"][-1]
    assert (row["incarnation"], row["rank"], row["expected"]) == (1, 1, 20)
    cells = row["cells"]
    assert (cells["model"], cells["lr"], cells["ema"], cells["rng"]) == ("20", "45", "none", "20")


def test_batches_that_come_later_were_skipped():
    assert check(killed(off={"batch": 30}).case()).codes == ("data-skipped",)


def test_a_fresh_start_is_one_thing_and_not_eight():
    assert check(killed(base=0).case()).codes == ("restarted-from-scratch",)


def test_a_fresh_start_is_right_when_nothing_was_due():
    assert check(killed(at=10, base=0).case()).outcome is Outcome.PASS


def test_data_that_departs_later_is_found():
    patch = {(rank, step, "batch"): f"other.{rank}.{step}" for rank in (0, 1) for step in range(41, 61)}
    run = Writer().launch().live(until=25).fault().died().launch().live(base=20, ends=True, patch=patch)
    verdict = check(run.exit(0).end().case())
    assert verdict.codes == ("data-differs",)
    assert "data matches no step of the reference" in verdict.sentence


def test_a_schedule_that_jumps_at_the_second_step_is_found():
    patch = {(rank, step, "lr"): f"lr@{step + 9}" for rank in (0, 1) for step in range(22, 61)}
    run = Writer().launch().live(until=25).fault().died().launch().live(base=20, ends=True, patch=patch)
    assert check(run.exit(0).end().case()).codes == ("lr-schedule-off",)


def test_two_kills_are_two_resumes():
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, until=45).fault().died()
    run.launch().live(base=40, off={"scaler": 0}, ends=True).exit(0).end()
    verdict = check(run.case())
    assert verdict.codes == ("scaler-not-restored",)
    assert verdict.evidence["expected"] == {"1": 20, "2": 40}


def test_what_the_second_life_saved_is_restored_in_the_third():
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, until=45, off={"rng.torch": 0}).fault().died()
    # The third life goes on exactly as the second did, which had left the reference.
    second = [e for e in run.events if e.source.endswith("-2") and e.kind == "step" and e["n"] == 21]
    patch = {(int(e.source[5]), 41, name): value for e in second for name, value in e["state"].items()}
    losses = {(int(e.source[5]), 41): e["losses"][0] for e in second}
    run.launch().live(base=40, until=41, patch=patch, losses=losses, ends=True).exit(0).end()
    verdict = check(run.case())
    assert verdict.codes == ("rng-not-restored",)
    assert {one["incarnation"] for one in verdict.evidence["findings"]} == {1}


def test_a_component_that_was_not_seen_is_no_pass():
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, off={"optimizer": None}, drift=False, ends=True).exit(0).end()
    verdict = check(run.case())
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))


def test_no_restart_is_nothing_to_restore():
    assert check(Writer().launch().live(pause=30, ends=True).exit(0).end().case()).outcome is Outcome.PASS


def test_a_job_that_never_came_back_restored_nothing():
    run = Writer().launch().live(until=25).fault().died().launch().died().end("gave-up")
    assert check(run.case()).codes == ("crash-loop",)


def shaky(number):
    """A job whose state differs from run to run past step 5, while data, LR and RNG do not."""

    def tell(name, rank, position):
        stable = position < 5 or name in ("lr", "batch", "rng.torch", "rng.python", "scaler")
        return truth(name, rank, position) if stable else f"{truth(name, rank, position)}#{number}"

    return tell


def test_without_determinism_the_run_is_held_to_its_own_past():
    reference = Reference.of([Writer(tell=shaky(n)).control().history() for n in (1, 2)])
    assert not reference.deterministic
    good = killed(tell=shaky(3)).case(reference)
    assert check(good).outcome is Outcome.PASS
    assert good.timeline.base(1) == 20
    bad = killed(tell=shaky(3), off={"optimizer": 0}).case(reference)
    assert check(bad).codes == ("optimizer-not-restored",)


def test_a_run_that_departs_before_any_fault_shows_that_the_job_is_not_deterministic():
    case = killed(tell=shaky(3)).case(Reference.of([Writer().control().history() for _ in range(2)]))
    assert case.timeline.departure is not None
    assert check(case).outcome is Outcome.PASS
    assert matches_reference()(case).codes == ("not-deterministic",)


def steps_apart(periods):
    """A job in which components stay the same for a while, or come again: collisions of every kind."""

    def tell(name, rank, position):
        hold, cycle = periods.get(name, (1, 10**6))
        return truth(name, rank, (position // hold) % cycle)

    return tell


period = st.tuples(st.integers(1, 15), st.integers(1, 12))
components = st.dictionaries(st.sampled_from([n for n in MOVING if n != "model"]), period)


@settings(max_examples=60, deadline=None)
@given(components, st.integers(8, 59), st.sampled_from([5, 10, 20]))
def test_a_correct_resume_is_never_accused(periods, at, every):
    base = at // every * every - (every if at % every == 0 else 0)
    tell = steps_apart({name: (hold, max(cycle, 2)) for name, (hold, cycle) in periods.items()})
    run = Writer(tell=tell, every=every)
    run.launch().live(until=at).fault().died().launch().live(base=base, ends=True).exit(0).end()
    case = run.case()
    for one in (state_restored(), matches_reference()):
        verdict = one(case)
        assert verdict.outcome is Outcome.PASS, verdict


@settings(max_examples=80, deadline=None)
@given(st.sets(st.sampled_from(MOVING), min_size=1, max_size=len(MOVING) - 1), st.booleans(), st.booleans())
def test_what_was_not_restored_is_named_exactly(lost, one_rank, drift):
    off = {(1, name) if one_rank else name: 0 for name in lost}
    run = Writer().launch().live(until=25).fault().died()
    case = run.launch().live(base=20, off=off, drift=drift, ends=True).exit(0).end().case()
    verdict = check(case)
    assert plain(verdict.codes) == {code(name) for name in lost}
    assert case.timeline.base(1) == 20
    codes = plain(matches_reference()(case).codes)
    assert codes - {"ranks-diverged"} == {code(name) for name in lost}


@settings(max_examples=60, deadline=None)
@given(components, st.sets(st.sampled_from(MOVING), max_size=4))
def test_whatever_collides_nothing_is_accused_that_is_where_it_should_be(periods, lost):
    """Where a lost component happens to be the same at 0 and at 20, nothing was lost and nothing may be said."""
    tell = steps_apart(periods)
    gone = {name for name in lost if tell(name, 0, 0) != tell(name, 0, 20)}
    run = Writer(tell=tell).launch().live(until=25).fault().died()
    run.launch().live(base=20, off=dict.fromkeys(gone, 0), drift=False, ends=True).exit(0).end()
    case = run.case()
    if gone >= {name for name in MOVING if tell(name, 0, 0) != tell(name, 0, 20)}:
        return
    verdict = check(case)
    data = {c for c in verdict.codes if c.startswith("data-")}
    assert plain(verdict.codes) - data == {code(name) for name in gone if name != "batch"}
    assert bool(data) == ("batch" in gone)


def test_streams_say_nothing_where_a_step_began_with_another_number_of_passes():
    """They are looked at as the optimizer steps, and dropout has drawn more or less by then; the batch says it."""

    def codes(*more):
        run = killed(off={"batch": 10, "rng.torch": "odd"})
        for event in run.events:
            if event.kind == "step" and event.source.endswith("-2") and event["n"] == 1:
                event.data["losses"] = [*event["losses"], *more]
        return state_restored()(run.case()).codes

    assert codes() == ("rng-not-restored", "data-replayed")
    assert codes("0x1.8p-3") == ("data-replayed",)


# Averages that the job keeps by hand: the probe sees copies that follow parameters.


def averaged(run, *, base=0, off=False, step=41):
    """At true `step` the ranks record the copies of two parameters."""
    own = "lost" if off else "kept"
    return run.tensors(step - base, "average", lambda rank: {"a": f"{own} a", "b": "b", "only here": own})


def resumed_with(**options):
    controls = [averaged(Writer().launch().live()).ended().exit(0).end().history() for _ in range(2)]
    run = Writer().launch().live(until=25).fault().died().launch().live(base=20, **options.pop("live", {}))
    return averaged(run, base=20, **options).ended().exit(0).end().case(Reference.of(controls))


def test_an_average_that_is_kept_by_hand_and_lost():
    verdict = check(resumed_with(off=True))
    assert verdict.codes == ("ema-not-restored",)
    assert verdict.evidence["findings"][0]["tensors"] == ["a", "only here"]
    assert matches_reference()(resumed_with(off=True)).codes == ("ema-not-restored",)


def test_an_average_that_is_kept_by_hand_and_restored():
    assert check(resumed_with()).outcome is Outcome.PASS
    # Where the model had diverged before, the average says nothing more.
    verdict = check(resumed_with(off=True, live={"off": {"model": 0}}))
    assert "ema-not-restored" not in verdict.codes and verdict.codes
