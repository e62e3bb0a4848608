"""A rank that is killed at the gate of a step which the others take and save: for the job it has taken it, too."""

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
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


def test_without_what_it_was_about_to_do_the_state_after_it_shows_that_its_gradients_are_in_it():
    case = struck(halts=False)
    assert [one.outcome for one in verdicts(case)] == [Outcome.PASS] * len(CHECKS)
    assert case.timeline.missing(1, 60) == [] and [gap.taken for gap in case.timeline.unrecorded] == [True]


def test_a_state_that_is_not_the_reference_s_shows_nothing():
    completed, same_data, state, _ = verdicts(struck(halts=False, off={"model": 0}))
    assert (completed.outcome, completed.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))
    assert same_data.outcome is Outcome.INCONCLUSIVE and "model-not-restored" in state.codes


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


def test_of_a_state_that_a_life_off_the_reference_left_unseen_nothing_is_said():
    """It took step 40, saved what came of it, and no step was begun after: nobody saw that state."""
    assert twice(halts=False) == ({(1, 0), (1, 1)}, ("rng-not-restored",))


def unseen(*, off, past=None, **options):
    """The second life loses `off`, saves after step 40, and ends there; the third goes on from what it saved, with a
    model that the reference never had, and loses `past`."""
    run = Writer(**options).launch().live(until=25).fault().died()
    run.launch().live(base=20, until=40, off=off, drift=bool(off)).fault().died()
    third = {"model": "own", "optimizer": "own", "buffers": "own"} if off else {}
    run.launch().live(base=40, off={**third, **(past or {})}, ends=True).exit(0).end()
    return run.case()


def read(path, *, of):
    """The second life goes its own way and saves after step 40; nothing of the third one's state was ever seen, but for
    a stream that every launch begins with, and it reads what was saved at step `of`."""

    def content(rank, position):
        return {"model": f"{position:032x}", "step": f"={position}"}

    own = {"model": "own", "optimizer": "own", "buffers": "own", "batch": "new", "lr": "own", "ema": "own"}
    own |= {"scaler": "own", "rng.torch": 0}
    run = Writer(content=content, names=("model", "optimizer", "buffers", "batch", "lr", "rng.torch"))
    run.launch().live(until=25).fault().died()
    run.launch().live(base=20, until=40, off={"rng.torch": 0, "batch": "drawn"}).fault().died()
    run.launch().live(base=40, off=own, ends=True)
    if path:
        run.load(path, content=lambda rank: content(rank, of))
    return run.exit(0).end().case()


def test_where_a_state_was_never_seen_what_was_read_tells_from_where_it_is():
    case = read("step-40.pt", of=40)
    assert case.timeline.base(2) == 40 and checks.completed()(case).outcome is Outcome.PASS
    assert checks.resumed_from_last_valid()(case).outcome is Outcome.PASS
    assert case.timeline.base(2) != read("", of=40).timeline.base(2)


def found(case):
    verdict = checks.state_restored()(case)
    told = sorted({(one["incarnation"], one["component"]) for one in verdict.evidence["findings"]})
    return told, checks.resumed_from_last_valid()(case).codes


def test_what_became_of_a_loss_in_an_earlier_life_is_not_told_as_another():
    case = unseen(off={"rng.torch": 0})
    assert found(case) == ([(1, "rng.torch")], ())
    cells = [row["cells"] for row in case.table() if row["incarnation"] == 2]
    assert all("model" not in own and own["batch"] == "40" for own in cells)


def test_what_goes_by_itself_is_held_to_the_reference_all_the_same():
    told = found(unseen(off={"rng.torch": 0}, past={"batch": 30, "lr": 0}))[0]
    assert {(1, "rng.torch"), (2, "batch"), (2, "lr")} <= set(told)


def test_where_nothing_was_lost_before_what_is_lost_then_is_found():
    told, codes = found(unseen(off={}, past={"model": "own", "optimizer": "own"}))
    assert told == [(2, "model"), (2, "optimizer")] and codes == ("model-not-restored",)
