"""When a run equals its reference again, for long enough, so that nothing is left to be seen."""

import dataclasses

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import STEPS, Convergence, converged, unequal
from tests.analysis.windows.by_hand import begun, killed, reference
from tests.history_writer import Writer


def found(run, *, least=STEPS, of=None):
    return converged(run.history(), of or reference(run), least=least)


def test_a_run_that_equals_the_reference_through_its_next_save():
    assert found(killed(until=33)) == Convergence(2, 20, 20, 33)


def test_also_in_the_incarnation_that_was_not_struck_at_all():
    """The fault did not restart anything: since it is over, and not since the incarnation began."""
    run = begun().launch().live(base=20, until=36, pause=25)
    assert found(run) == Convergence(1, 20, 25, 36)
    assert found(begun().launch().live(base=20, until=32, pause=25)) is None, "not eight steps since then"


@pytest.mark.parametrize("until", [21, 27, 30])
def test_without_the_next_save_and_a_step_after_it_something_is_left(until):
    assert found(killed(until=until)) is None


@pytest.mark.parametrize(
    ("at", "base", "epochs", "end"),
    [
        (25, 20, (0, 15, 30, 45), 31),  # not near one
        (25, 20, (0, 24, 44), 52),  # struck near one: through the next
        (29, 20, (0, 31, 40), 48),  # struck before one
        (25, 20, (0, 20, 40), 48),  # resumed at one
        (25, 20, (0, 24), None),  # there is no further one
    ],
)
def test_near_the_beginning_of_an_epoch_through_that_of_the_next(at, base, epochs, end):
    def run(until):
        made = begun(epochs=epochs)
        made.launch(out="/runs/1/out").live(base=20, until=at).fault().died()
        return made.launch(out="/runs/1/out").live(base=base, until=until)

    of = reference(run(60))
    assert of.epochs == epochs
    first = next((n for n in range(base + 1, 60) if converged(run(n).history(), of) is not None), None)
    assert first == end


def test_as_many_steps_as_are_asked_for():
    assert found(killed(until=36), least=16) == Convergence(2, 20, 20, 36)
    assert found(killed(until=36), least=17) is None


def test_after_the_last_save_nothing_shows_what_is_saved_next():
    run = begun(save=50).launch().live(base=50, until=59, pause=51)
    assert found(run) is None


def test_the_end_is_no_position_of_a_save():
    assert found(killed(until=40)).end == 39 and found(killed(until=41)).end == 41


def test_nor_one_of_an_export():
    exports = {32: "weights-32.pt", 33: "weights-33.pt"}
    run = begun()
    run.launch().live(base=20, until=25).fault().died()
    run.launch().live(base=20, until=33, extra=exports)
    other = [Writer(every=10).launch().live(ends=True, extra=exports).exit(0).end().history() for _ in range(2)]
    assert found(run, of=Reference.of(other)).end == 31


def test_a_fault_that_was_healed_after_the_last_step_changed_none():
    run = killed(until=33)
    run.say("fault.healed", fault=0)
    assert found(run).since == 20


@pytest.mark.parametrize(
    "off",
    [
        {"patch": {(1, 40, "rng.torch"): "drawn once more"}},
        {"patch": {(0, 22, "model"): None}},
        {"losses": {(0, 42): (0.5).hex()}},
        {"patch": {(1, 42, "batch"): "another"}},
    ],
    ids=["a stream", "a component that is gone", "the loss of the last step", "the last batch"],
)
def test_one_difference_at_any_step_is_enough(off):
    assert found(killed(until=42, **off)) is None


def test_of_the_last_step_a_device_may_not_have_told_everything():
    """What it computes is put down as the next step begins: a rank that was ended before is not another one."""
    assert found(killed(until=42, patch={(1, 42, "model"): None})).end == 41
    assert found(killed(until=42, patch={(1, 41, "model"): None})) is None


def test_a_difference_before_the_fault_was_over_does_not_count():
    run = begun().launch().live(base=20, until=42, pause=31, patch={(0, 25, "batch"): "other"})
    assert found(run).since == 31


def test_a_save_that_is_left_out():
    assert found(killed(until=33, saves=False)) is None


def test_a_save_that_is_still_open_is_the_end():
    assert found(killed(until=30, torn=True)) is None
    assert found(killed(until=40, torn=True)) == Convergence(2, 20, 20, 39)


def test_a_save_beyond_the_end_has_to_be_the_right_one_all_the_same():
    whole = {"content": lambda rank, at: {"model": f"{at}"}}
    wrong = {"content": lambda rank, at: {"model": "0" if at == 40 else f"{at}"}}
    right, other = killed(until=40, **whole), killed(until=40, **wrong)
    of = reference(right)
    assert found(right, of=of).end == 39 and found(other, of=of) is None


def test_a_save_that_failed_or_that_the_reference_does_not_make():
    run = killed(until=33)
    run.save(13, ok=False)
    assert found(run) is None
    assert found(killed(until=36, extra={33: "emergency.pt"})) is None


def test_content_that_is_another_one():
    same = {"content": lambda rank, at: {"model": f"{at}", "args.name": "=a"}}
    run = killed(until=33, content=lambda rank, at: {"model": f"{at}", "args.name": "=b"})
    assert found(run, of=reference(killed(until=33, **same))) is None
    assert found(killed(until=33, **same)).end == 33


def test_content_in_which_the_controls_differ_does_not_count():
    own = [
        killed(until=33, content=lambda rank, at, date=date: {"model": f"{at}", "date": f"={date}"})
        for date in range(3)
    ]
    of = Reference.of([run.control().history() for run in own[:2]])
    assert found(own[2], of=of).end == 33


def test_a_path_that_a_checkpoint_remembers_does_not_count():
    """Each run has a directory of its own, of which the record of a checkpoint shows the beginning."""
    at = {"content": lambda rank, at: {"model": f"{at}", "out": "=/store/references/"}}
    run = killed(until=33, content=lambda rank, at: {"model": f"{at}", "out": "=/store/runs/"})
    assert found(run, of=reference(killed(until=33, **at))).end == 33


def test_on_every_rank():
    run = begun()
    run.launch().live(base=20, until=25).fault().died()
    run.launch().live(base=20, until=42, only=[0])
    assert found(run) is None
    run = begun()
    run.launch().live(base=20, until=25).fault().died()
    run.launch().live(base=20, until=42, world=3)
    assert found(run) is None


def test_the_slowest_rank_says_how_far_the_job_is():
    run = killed(until=42)
    run.events = [
        event for event in run.events if not (event.source == "rank-1-3" and event.data.get("n", 0) > 15)
    ]
    assert found(run).end == 35


def test_more_steps_than_the_reference_takes():
    of = reference(Writer(every=10, steps=40))
    run = killed(until=42)
    assert found(run, of=of) is None


def test_an_error_of_the_probe_hides_what_it_may():
    run = killed(until=42)
    assert found(run.say("probe.error", "rank-0-3", where="step", error="x")) is None


def test_a_newer_launch_is_to_be_waited_for():
    run = killed(until=42).died().launch()
    assert found(run) is None


def test_a_run_that_differed_before_its_fault_is_compared_with_nothing():
    run = begun()
    run.launch().live(base=20, until=25).fault().died().launch().live(base=20, until=42)
    first = next(e for e in run.events if e.kind == "step" and e.data["n"] == 5)
    place = run.events.index(first)
    run.events[place] = dataclasses.replace(
        first, data={**first.data, "state": {**first["state"], "model": "odd"}}
    )
    of = reference(run)
    assert found(run, of=of) is None
    assert unequal(run.history(), of, incarnation=1, base=20).startswith("rests on a record that differs")


def apart(run, **options):
    return unequal(run.history(), reference(run), incarnation=1, base=20, **options)


def test_in_what_a_run_is_unequal():
    run = begun().launch().live(base=20, ends=True).exit(0).end()
    assert apart(run) == apart(run, to_end=True) == ""
    run = begun().launch().live(base=20, until=59)
    assert apart(run) == "" and apart(run, to_end=True).startswith("ended before its last step")
    run = begun().launch().live(base=10)
    assert apart(run) == "did not resume from step 20, but from 10"
    run = begun().launch().live(base=20, only=[0])
    assert apart(run) == "had other ranks"
    run = begun().launch().live(base=20, patch={(1, 33, "lr"): "odd"})
    assert apart(run) == "differs from the reference at step 33, rank 1, in lr"
    assert apart(run, before=run.history().incarnations[1].ranks[1].steps.times[12]) == ""
    run = begun().launch().live(base=20, saves=False, ends=True)
    assert apart(run) == "" and apart(run, to_end=True).startswith("saved something else")
