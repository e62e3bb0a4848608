"""A rank that is killed at the gate of a step which the others take and save: for the job it has taken it, too."""

from chaoskit import checks
from chaoskit.checks import Case
from chaoskit.reference import Reference
from chaoskit.verdict import Outcome
from tests.history_writer import Writer

CHECKS = (checks.completed, checks.same_data, checks.state_restored, checks.matches_reference)


def sample(rank, position):
    return [f"{position}.{rank}"]


def by_rank_0(run):
    """Only rank 0 saves, as most loops have it, and waits for nobody."""
    saved = {event["id"] for event in run.events if event.kind == "save.begin" and event.source[5] != "0"}
    run.events = [e for e in run.events if not (e.kind.startswith("save.") and e["id"] in saved)]
    return run


def struck(*, base=20, every=20, halts=True, **options):
    """Rank 0 takes step 20, and saves it or not; rank 1 is killed at its gate."""
    run = Writer(samples=sample, every=every).launch().live(until=20, halted=[1]).fault().died()
    run = by_rank_0(run.launch().live(base=base, ends=True, **options).exit(0).end())
    run.events = [event for event in run.events if halts or event.kind != "halt"]
    control = by_rank_0(run.control()).history()
    return Case(run.history(), Reference.of([control, control]))


def verdicts(case):
    return [check()(case) for check in CHECKS]


def test_an_exact_resume_from_the_save_of_that_step_passes():
    case = struck()
    assert [one.outcome for one in verdicts(case)] == [Outcome.PASS] * len(CHECKS)
    assert case.ledger.codes == () and case.timeline.missing(1, 60) == []
    assert checks.resumed_from_last_valid()(case).outcome is Outcome.PASS


def test_without_what_it_was_about_to_do_the_step_was_never_taken():
    completed, same_data, *_ = verdicts(struck(halts=False))
    assert (completed.codes, same_data.codes) == (("exited-early",), ("data-skipped",))


def test_what_was_lost_beside_is_still_found():
    assert verdicts(struck(off={(1, "optimizer"): 0}))[2].codes == ("optimizer-not-restored",)
    assert verdicts(struck(off={(1, "batch"): 30}))[1].codes == ("data-skipped",)


def test_a_step_that_nobody_went_on_from_changes_nothing():
    """Back to step 10, or to the beginning, although the others had taken step 20: it is taken again."""
    for base, every in ((10, 10), (0, 40)):
        with_it, without = (struck(base=base, every=every, halts=halts) for halts in (True, False))
        assert verdicts(with_it) == verdicts(without)
        assert with_it.timeline.executed == without.timeline.executed
        assert verdicts(with_it)[1].outcome is Outcome.PASS


def twice(*, halts=True):
    """The second life is off the reference; rank 1 is killed at the gate of step 41, and the third goes on from 40."""
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, until=41, off={"rng.torch": 0}, halted=[1]).fault().died()
    second = [e for e in run.events if e.source.endswith("-2") and e.kind in ("step", "halt") and e["n"] == 21]
    patch = {(int(e.source[5]), 41, name): value for e in second for name, value in e["state"].items()}
    losses = {(int(e.source[5]), 41): e["losses"][0] for e in second}
    run.launch().live(base=40, until=41, patch=patch, losses=losses, ends=True).exit(0).end()
    run.events = [event for event in run.events if halts or event.kind != "halt"]
    verdict = checks.state_restored()(run.case())
    return {(one["incarnation"], one["rank"]) for one in verdict.evidence["findings"]}, verdict.codes


def test_a_life_off_the_reference_teaches_what_a_rank_was_at_the_step_that_it_halted_at():
    assert twice() == ({(1, 0), (1, 1)}, ("rng-not-restored",))
    found, codes = twice(halts=False)
    assert (2, 1) in found and "model-not-restored" in codes
