"""Batches that the reference never has, of rows that are not known: said so, and not called by another name."""

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from tests.history_writer import Writer


def row(rank, at):
    return [str(4 * at + 2 * rank + i) for i in (0, 1)]


def noisy(seed, *, few=False):
    """Samples of which each is its row and a number that is drawn; with `few` outcomes, most rows stay as they are."""

    def samples(rank, at):
        drawn = [(7 * at + 3 * rank + i + seed) % 5 for i in (0, 1)]
        both = zip(row(rank, at), drawn, strict=True)
        return [one if few and roll else f"{one}+{seed}.{roll}" for one, roll in both]

    return samples


def case(second, *, first=None, rows=None, second_rows=None, epochs=()):
    first = first or noisy(0)
    run = Writer(samples=first, rows=rows, epochs=epochs)
    control = run.control().history()
    run.launch().live(until=25).fault().died()
    run.samples, run.rows = second, second_rows
    own = {(rank, at, "batch"): "+".join(second(rank, at - 1)) for rank in (0, 1) for at in range(21, 61)}
    own = {key: value for key, value in own.items() if value != "+".join(first(key[0], key[1] - 1))}
    run.launch().live(base=20, ends=True, patch=own).exit(0).end()
    return Case(run.history(), Reference.of([control, control]))


def codes(found):
    data, once = checks.same_data()(found), checks.samples_exactly_once()(found)
    return data.codes, once.codes, checks.state_restored()(found).codes


UNKNOWN = (("data-differs",),) * 3


def test_lost_random_numbers_and_lost_rows_look_alike_without_rows():
    assert codes(case(noisy(1))) == UNKNOWN
    assert codes(case(lambda rank, at: noisy(1)(rank, at + 5))) == UNKNOWN
    sentence = checks.same_data()(case(noisy(1))).sentence
    assert "cannot be determined" in sentence and "skipped" not in sentence


def test_also_where_some_samples_happen_to_be_in_the_reference():
    found = case(noisy(1, few=True), first=noisy(0, few=True))
    assert found.ledger.undetermined and 0 < found.ledger.strange <= found.ledger.replayed
    assert codes(found)[0] == ("data-differs",)
    assert found.ledger.to_json()["undetermined"] is True


def test_with_rows_it_is_known():
    assert codes(case(noisy(1), rows=row, second_rows=row)) == ((), (), ("rng-not-restored",))
    ahead = case(
        lambda rank, at: noisy(1)(rank, at + 5), rows=row, second_rows=lambda rank, at: row(rank, at + 5)
    )
    assert codes(ahead) == (("data-skipped",),) * 3


def test_rows_that_are_unknown_in_one_step_of_the_run_alone_prove_nothing():
    def all_but_one(rank, at):
        return ["-", row(rank, at)[1]] if at == 20 else row(rank, at)

    assert codes(case(noisy(1), rows=row, second_rows=all_but_one))[0] == ("data-differs",)
    # Where the reference does not know them either, they are noise beside the data.
    assert codes(case(noisy(1), rows=all_but_one, second_rows=all_but_one))[0] == ()


def test_samples_past_the_last_one_of_the_reference_are_a_consequence():
    def plain(rank, at):
        return row(rank, at)

    assert codes(case(lambda rank, at: plain(rank, at + 5), first=plain)) == (("data-skipped",),) * 3
    assert "undetermined" not in case(lambda rank, at: plain(rank, at + 5), first=plain).ledger.to_json()
    # All of them are beyond it: nothing tells what they are.
    assert codes(case(lambda rank, at: plain(rank, at + 50), first=plain)) == UNKNOWN


def test_what_the_reference_has_elsewhere_keeps_its_name():
    def plain(rank, at):
        return row(rank, at)

    assert codes(case(lambda rank, at: plain(rank, at - 10), first=plain))[0] == ("data-replayed",)
    swapped = case(lambda rank, at: plain(rank, at ^ 1), first=plain)
    assert codes(swapped) == (("data-reordered",), (), ("data-reordered",))
