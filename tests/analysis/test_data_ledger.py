"""The ledger: consumed too often, too seldom, in another order; whatever the data itself repeats."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, killed

EPOCH, SIZE = 20, 4
same_data = checks.same_data()


def sample(rank, position, *, order=lambda epoch: epoch):
    """Two samples a step; every epoch has the same ones, in an order of its own."""
    epoch, place = divmod(position, EPOCH)
    shift = 7 * order(epoch)
    return [f"{(2 * (place + shift) + i) % (2 * EPOCH)}.{rank}" for i in (0, 1)]


def reference(samples=sample, **options):
    run = Writer(samples=samples, epochs=(0, 20, 40), **options)
    return Reference.of([run.control().history(), run.control().history()])


def resumed(second, *, samples=sample, until=35, base=30, expected=None, names=None, steps=60):
    """A run of which the second life consumes what `second` says."""
    options = {} if names is None else {"names": names}
    run = Writer(samples=samples, epochs=(0, 20, 40), every=10, **options)
    run.launch().live(until=until).fault().died()
    run.samples = second
    run.launch().live(base=base, until=steps, ends=True, patch=_batches(second, base, steps)).exit(0).end()
    return Case(run.history(), expected or reference(samples, every=10, **options))


def _batches(second, base, steps):
    """The batch is what its samples are."""
    same = {
        (rank, at): sample(rank, at - 1) == second(rank, at - 1)
        for rank in (0, 1)
        for at in range(base, steps + 1)
    }
    return {(r, at, "batch"): f"{'.'.join(second(r, at - 1))}" for (r, at), equal in same.items() if not equal}


def test_an_exact_resume():
    case = resumed(sample)
    assert (case.ledger.unit, case.ledger.codes, case.ledger.sentence) == ("sample", (), "")
    verdict = same_data(case)
    assert verdict.outcome is Outcome.PASS and "every sample of 60 steps" in verdict.sentence


def test_the_epoch_begun_again_and_run_to_its_end():
    """After step 30 the second epoch begins again and is finished: ten steps too many."""
    case = resumed(lambda rank, position: sample(rank, position - 10), steps=70)
    found = case.ledger
    assert found.codes == ("data-replayed",)
    assert (found.replayed, found.skipped, found.first_replayed.step) == (40, 0, 31)
    # Each epoch has these samples: that of the epoch under way, and not of the first, is named.
    assert found.first_replayed.again == 21
    assert "40 samples consumed too often (first at step 31, rank 0: that of step 21)" in found.sentence


def test_the_epoch_begun_again_in_a_fixed_number_of_steps():
    """Every sample is another one: nothing returns with the next epoch."""

    def unique(rank, position):
        return [f"{position}.{rank}"]

    found = resumed(lambda rank, position: unique(rank, position - 10), samples=unique).ledger
    assert found.codes == ("data-replayed",)
    assert (found.replayed, found.skipped, found.tail, found.strange) == (20, 20, "skipped", 0)
    assert "which follows from the number of steps" in found.sentence


def test_training_on_past_the_end_replays_nothing():
    case = resumed(sample, steps=66)
    assert (case.ledger.codes, case.ledger.replayed, case.ledger.tail) == ((), 24, "replayed")
    assert "then the training went on" in same_data(case).sentence
    (first, *_) = checks.matches_reference()(case).evidence["differences"]
    assert (first["step"], first["values"]) == (61, {"steps": ["taken", "not taken"]})


def test_samples_left_out():
    found = resumed(lambda rank, position: sample(rank, position + 5), steps=55).ledger
    assert found.codes == ("data-skipped",)
    assert (found.replayed, found.skipped, found.first_skipped.step) == (0, 20, 31)


def test_the_right_place_in_the_order_of_another_epoch():
    wrong = lambda rank, position: sample(rank, position, order=lambda epoch: 0 if epoch == 1 else epoch)  # noqa: E731
    found = resumed(wrong).ledger
    assert found.codes == ("data-replayed", "data-skipped")
    assert found.replayed == found.skipped > 0
    assert found.epochs == (2,)
    assert found.orders == ((2, 1),) and found.sentence.endswith(": epoch 2 has the order of epoch 1")
    assert same_data(resumed(wrong)).codes == found.codes


def test_a_sampler_that_counts_epochs_from_its_restart():
    """Epoch 3 is begun by the resumed process, too: as its second."""
    wrong = lambda rank, position: sample(rank, position, order=lambda epoch: max(0, epoch - 1))  # noqa: E731
    assert resumed(wrong).ledger.orders == ((2, 1), (3, 2))


def test_a_few_steps_in_the_order_of_another_epoch_are_no_order():
    def wrong(rank, position):
        return sample(rank, position - EPOCH if position in (30, 31) else position)

    found = resumed(wrong).ledger
    assert found.codes and found.orders == ()


def test_another_order_in_one_epoch_that_is_of_none():
    wrong = lambda rank, position: sample(rank, position, order=lambda epoch: 5 if epoch == 1 else epoch)  # noqa: E731
    assert resumed(wrong).ledger.orders == ()


def test_the_same_samples_in_another_order():
    def swapped(rank, position):
        return sample(rank, {40: 41, 41: 40}.get(position, position))

    found = resumed(swapped).ledger
    assert found.codes == ("data-reordered",)
    assert (found.reordered, found.first_reordered.step, found.epochs) == (2, 41, (3,))


def test_samples_that_the_reference_never_saw():
    found = resumed(lambda rank, position: [f"new {position}".replace(" ", "-")] * 2).ledger
    assert found.codes == ("data-differs",)
    assert found.first_replayed.again is None
    assert found.undetermined and found.sentence.endswith(
        "120 samples that the reference never consumes (first at step 31, rank 0)"
    )


def test_ranks_that_overlap():
    """Rank 1 consumes what rank 0 does."""
    found = resumed(lambda rank, position: sample(0, position)).ledger
    assert found.codes == ("data-replayed", "data-skipped")
    assert found.first_replayed.rank == 1


def test_batches_where_samples_are_not_known():
    assert resumed(lambda *_: [], samples=lambda *_: []).ledger.unit == "batch"


def test_without_a_batch_nothing_is_claimed():
    case = resumed(lambda *_: [], samples=lambda *_: [], names=["model", "lr"])
    assert case.ledger is None
    assert same_data(case).codes == ("probe-blind",)


def test_a_job_that_hangs_has_not_skipped_what_comes_after():
    run = Writer(samples=sample, epochs=(0, 20, 40), every=10)
    run.launch().live(until=35).fault().died().launch().live(base=30, until=50).exit(1, cause="deadline")
    case = Case(run.end("deadline").history(), reference(every=10))
    assert case.ledger.codes == ()
    assert same_data(case).codes == ("hang",)


def test_a_rank_whose_record_is_cut_is_no_pass():
    run = Writer(samples=sample, every=10).launch().live(until=35).fault().died()
    run.launch().live(base=30, until=60, only=[0], ends=True).exit(0).end()
    verdict = same_data(Case(run.history(), reference(every=10)))
    assert verdict.outcome is not Outcome.PASS


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=2), min_size=6, max_size=6),
    st.lists(st.lists(st.sampled_from("abcdefghxyz"), min_size=2, max_size=2), min_size=6, max_size=6),
)
def test_counts_are_those_of_multisets(due, got):
    """Whatever the data repeats: too often and too seldom are the differences of two multisets."""

    def truth(rank, position):
        return due[position] if position < len(due) else []

    def second(rank, position):
        return got[position] if position < len(got) else []

    plan = Writer(steps=6, ranks=1, every=2, samples=truth)
    expected = Reference.of([plan.control().history(), plan.control().history()])
    run = Writer(steps=6, ranks=1, every=2, samples=truth).launch().live(until=3).fault().died()
    run.samples = second
    run.launch().live(base=2, ends=True).exit(0).end()
    found = Case(run.history(), expected).ledger
    consumed = Counter(one for units in due[:2] + got[2:] for one in units)
    wanted = Counter(one for units in due for one in units)
    assert found.replayed == (consumed - wanted).total()
    assert found.skipped == (wanted - consumed).total()
    if found.replayed == found.skipped == 0:
        assert bool(found.codes) == (due[2:] != got[2:])


@pytest.mark.parametrize("again", [0, 5, 20])
def test_what_a_later_life_makes_good_is_clean(again):
    run = Writer(samples=sample, every=10, epochs=(0, 20, 40)).launch().live(until=25).fault().died()
    run.samples = lambda rank, position: sample(rank, position - 3)
    run.launch().live(base=20, until=25).fault().died()
    run.samples = sample
    run.launch().live(base=20, ends=True).exit(0).end()
    assert Case(run.history(), reference(every=10)).ledger.codes == ()


def test_what_comes_too_early_is_that_of_a_step_to_come():
    def unique(rank, position):
        return [f"{position}.{rank}"]

    found = resumed(lambda rank, position: unique(rank, 45 if position == 30 else position), samples=unique).ledger
    assert (found.first_replayed.step, found.first_replayed.again, found.first_skipped.step) == (31, 46, 31)


def test_batches_are_counted_in_batches():
    found = killed(off={"batch": 10}).case().ledger
    assert (found.unit, found.replayed) == ("batch", 20) and "20 batches consumed too often" in found.sentence


def drawn_anew(second, *, augmented=True, known=True, asked=None):
    """As `resumed`, by a data set that augments its rows at random and draws other numbers than the reference had;
    beside each batch there is noise, which is of no row."""

    def told(seed, order):
        def samples(rank, at):
            return [f"{one}.{at}.{seed}" if augmented else one for one in order(rank, at)] + [f"noise.{at}.{seed}"]

        return samples

    def rows(order):
        return (lambda rank, at: [one.partition(".")[0] for one in order(rank, at)] + ["-"]) if known else None

    run = Writer(samples=told("a", sample), rows=rows(sample), epochs=(0, 20, 40), every=10)
    control = run.control().history()
    run.launch().live(until=35).fault().died()
    run.samples, run.rows = told("b", second), rows(asked or second)
    patch = {(r, at, "batch"): "+".join(run.samples(r, at - 1)) for r in (0, 1) for at in range(31, 61)}
    run.launch().live(base=30, ends=True, patch=patch).exit(0).end()
    return Case(run.history(), Reference.of([control, control]))


def test_the_right_rows_augmented_otherwise_are_the_right_data():
    case = drawn_anew(sample)
    assert (case.ledger.unit, case.ledger.codes, case.ledger.sentence) == ("row", (), "")
    assert same_data(case).outcome is Outcome.PASS
    assert drawn_anew(sample, known=False).ledger.codes == ("data-differs",)


def test_wrong_rows_augmented_at_random_are_counted_in_rows():
    replayed = drawn_anew(lambda rank, position: sample(rank, position - 10)).ledger
    skipped = drawn_anew(lambda rank, position: sample(rank, position + 5)).ledger
    assert (replayed.unit, replayed.codes, replayed.tail) == ("row", ("data-replayed",), "skipped")
    assert replayed.replayed == replayed.skipped and "rows consumed too often" in replayed.sentence
    assert (skipped.unit, bool(skipped.codes)) == ("row", True)
    assert "-" not in {*replayed.repeated, *replayed.lost, *skipped.repeated, *skipped.lost}
    swapped = drawn_anew(lambda rank, position: sample(rank, {40: 41, 41: 40}.get(position, position))).ledger
    assert (swapped.unit, swapped.codes, swapped.reordered) == ("row", ("data-reordered",), 2)


def test_samples_that_the_reference_makes_of_other_rows_are_counted_themselves():
    """Whatever rows are said to have been asked for."""
    found = drawn_anew(lambda rank, position: sample(rank, position - 10), augmented=False, asked=sample).ledger
    assert found.unit == "sample" and 0 < found.strange < found.replayed  # the noise is strange, the rest is not
