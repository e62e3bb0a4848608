"""What is off after a resume and is no other data, or nothing at all: random numbers in the data, streams of nobody."""

import pytest

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, truth

RANKS, LATER = (0, 1), range(21, 61)


def samples(rank, position):
    return [f"s{position}.{rank}.{i}" for i in (0, 1)]


def rows(rank, position):
    return [str(4 * position + 2 * rank + i) for i in (0, 1)]


def resumed(second, second_rows=rows, *, known=True, wanted=(samples, rows)):
    """The second life has samples of its own from step 21 on, and batches that are what they are."""
    run = Writer(samples=wanted[0], rows=wanted[1] if known else None)
    control = run.control().history()
    run.launch().live(until=25).fault().died()
    run.samples, run.rows = second, second_rows if known else None
    own = {(r, at, "batch"): "+".join(second(r, at - 1)) for r in RANKS for at in LATER}
    own = {at: value for at, value in own.items() if value != "+".join(wanted[0](at[0], at[1] - 1))}
    run.launch().live(base=20, ends=True, patch=own).exit(0).end()
    return Case(run.history(), Reference.of([control, control]))


def by_turns(run, *, batch="of noise"):
    """Every other step is that of a generator, which is given noise and no data."""
    for event in run.events:
        if event.kind == "step" and (event["n"] + 20 * event.source.endswith("-2")) % 2 == 0:
            del event.data["samples"], event.data["rows"]
            event["state"]["batch"] = batch if event.source.endswith("-2") else "of noise"
    return run.history()


def alternating(second, second_rows=rows, *, batch="of noise"):
    """As `resumed`, by turns; `batch` is what the steps without data have in the run."""
    control = by_turns(Writer(samples=samples, rows=rows).control())
    run = Writer(samples=samples, rows=rows).launch().live(until=25).fault().died()
    run.samples, run.rows = second, second_rows
    own = {(r, at, "batch"): "+".join(second(r, at - 1)) for r in RANKS for at in LATER}
    run.launch().live(base=20, ends=True, patch=own).exit(0).end()
    return Case(by_turns(run, batch=batch), Reference.of([control, control]))


def test_steps_without_data_do_not_keep_the_rows_of_others_from_being_known():
    assert found(alternating(strange)) == (("rng-not-restored",), ())
    other = alternating(strange, lambda rank, at: rows(rank, at - 10))
    assert found(other)[1] == ("data-replayed",)


def test_a_step_without_samples_whose_batch_is_no_other_one_s_may_have_had_any_rows():
    assert found(alternating(strange, batch="unheard of"))[1] == ("data-differs",)


def found(case):
    """The codes of the state, and of the data."""
    return checks.state_restored()(case).codes, checks.same_data()(case).codes


def strange(rank, position):
    return [f"new{position}.{rank}.{i}" for i in (0, 1)]


def test_the_right_rows_made_with_other_random_numbers():
    case = resumed(strange)
    assert found(case) == (("rng-not-restored",), ())
    sentence = checks.state_restored()(case).sentence
    assert "every rank: data drawn with different random numbers (the rows are those of step 20); model, " in sentence
    assert checks.matches_reference()(case).codes == ("rng-not-restored",)
    # An augmentation that is made of every other row does, too.
    assert found(resumed(lambda r, at: [samples(r, at)[0], strange(r, at)[1]])) == (("rng-not-restored",), ())


def test_augmented_otherwise_past_the_first_step():
    """What draws from a stream of its own goes wrong later."""
    case = resumed(lambda rank, at: strange(rank, at) if at >= 30 else samples(rank, at))
    assert found(case) == (("rng-not-restored",), ())
    assert "data drawn with different random numbers (the rows are those of step 30)" in (
        checks.state_restored()(case).sentence
    )


def test_without_rows_or_with_other_rows_it_is_the_data():
    assert found(resumed(strange, known=False)) == (("data-differs",),) * 2
    replayed = found(resumed(strange, lambda rank, at: rows(rank, at - 10)))
    assert replayed == (("data-replayed",),) * 2  # the last ten steps are missed, as the training ends at a number
    halves = resumed(strange, lambda rank, at: [rows(rank, at)[0], "0"])
    assert found(halves) == (("data-replayed", "data-skipped"),) * 2


def test_the_right_rows_but_samples_that_are_due_elsewhere_are_the_data():
    """Whatever the rows are said to be: what the model was given is that of another step."""
    state, data = found(resumed(lambda rank, at: samples(rank, at - 10)))
    assert state == data == ("data-replayed",)
    mixed, _ = found(resumed(lambda rank, at: [samples(rank, at - 10)[0], strange(rank, at)[1]]))
    assert "rng-not-restored" not in mixed and mixed


def test_an_augmentation_of_few_outcomes_makes_what_another_epoch_has_of_the_same_row():
    """Each row is flipped or not; epochs have 10 steps. What is off is the right row, as another epoch had it."""

    def row(rank, at):
        return [f"{2 * (at % 10) + rank}"]

    def flipped(rank, at):
        return [f"{row(rank, at)[0]}{'a' if at // 10 % 2 else 'b'}"]

    case = resumed(lambda rank, at: [f"{row(rank, at)[0]}a"], row, wanted=(flipped, row))
    assert found(case) == (("rng-not-restored",), ())
    balanced = resumed(lambda rank, at: flipped(rank, at + 10), row, wanted=(flipped, row))
    assert found(balanced) == (("rng-not-restored",), ())


def test_rows_that_are_right_at_first_and_then_are_not():
    case = resumed(strange, lambda rank, at: rows(rank, at if at < 40 else at - 20))
    assert found(case) == (("data-replayed",),) * 2
    assert "random numbers" not in checks.state_restored()(case).sentence


def test_a_step_whose_samples_never_came():
    """The rank was killed before what a device had computed of its last step was read: its rows alone are known."""
    case = resumed(strange)
    for inc in case.history.incarnations[:1]:
        for life in inc.ranks.values():
            life.steps.samples = [*life.steps.samples[:-1], ""]
    assert found(case)[0]


# Streams that nobody draws from.


def rests(name, rank, position):
    return name if name == "rng.torch" else truth(name, rank, position)


def off(value, *, tell=rests, ranks=RANKS, parts=None):
    """The stream of torch is another one after the resume: `value` of each step. From step 36 on something `parts`."""
    run = Writer(tell=tell).launch().live(until=25).fault().died()
    own = {(rank, at, "rng.torch"): value(at) for rank in ranks for at in LATER}
    more = {(rank, at, parts): f"other{at}" for rank in RANKS for at in LATER[15:] if parts not in (None, "loss")}
    losses = {(1, 36): (3.0).hex()} if parts == "loss" else {}
    return run.launch().live(base=20, ends=True, patch={**own, **more}, losses=losses).exit(0).end().case()


@pytest.mark.parametrize("ranks", [RANKS, [1]])
def test_a_stream_that_nobody_draws_from_may_be_any(ranks):
    case = off(lambda at: "another", ranks=ranks)
    for check in (checks.state_restored, checks.matches_reference, checks.same_data, checks.completed):
        assert check()(case).outcome is Outcome.PASS, check
    assert case.comparison.unused == {(1, rank, "rng.torch") for rank in ranks}


def lost(case):
    return "rng-" in " ".join(checks.state_restored()(case).codes) and case.comparison.unused == frozenset()


def test_a_stream_that_moves_in_the_life_or_in_the_reference_is_used():
    assert lost(off(lambda at: f"another{at}"))
    assert lost(off(lambda at: "another" if at < 60 else "moved"))
    assert lost(off(lambda at: "another", tell=truth))


@pytest.mark.parametrize("name", ["model", "optimizer", "batch", "loss"])
def test_a_stream_that_rests_explains_what_parts_beside_it(name):
    case = off(lambda at: "another", parts=name)
    assert lost(case) and "rng-not-restored" in checks.matches_reference()(case).codes
