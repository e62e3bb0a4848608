"""Steps that a rank did not record, and that the job took all the same: what shows it, and what does not."""

import pytest

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from chaoskit.verdict import Outcome
from tests.history_writer import Writer

CHECKS = (
    checks.completed(),
    checks.state_restored(),
    checks.same_data(),
    checks.samples_exactly_once(),
    checks.matches_reference(),
    checks.resumed_from_last_valid(),
)


def sample(rank, position):
    return [f"{position}.{rank}"]


def content(_, position, *, wrong=False):
    """What rank 0 saves: a tensor that moves, one that does not, and the step."""
    return {"model.w": f"{position + 1000 * wrong:032x}", "buffer": "0" * 32, "step": f"={position}"}


def by_rank_0(run):
    """Only rank 0 saves."""
    saved = {event["id"] for event in run.events if event.kind == "save.begin" and event.source[5] != "0"}
    run.events = [e for e in run.events if not (e.kind.startswith("save.") and e["id"] in saved)]
    return run


def last_step(*, wrong=False, saved=True, read=None, ends=0, halts=False, unseen=False):
    """Rank 1 is killed before it records step 60, the last, which rank 0 takes and saves. A relaunch reads `read` and
    ends without a step."""
    options = {"samples": sample, "content": content}
    control = by_rank_0(Writer(**options).launch().live(ends=True).exit(0).end()).history()
    run = Writer(**options)
    run.content = lambda rank, position: {} if unseen else content(rank, position, wrong=wrong and position == 60)
    run.launch().live(until=60, halted=[1], saves=False)
    run.events = [event for event in run.events if halts or event.kind != "halt"]
    if saved:
        run.save(60, unfinished=saved == "open")
    run.fault().died().launch().live(base=60, until=60, ends=True)
    if read:
        run.load(f"step-{read}.pt", content=lambda rank: content(rank, read))
    return Case(by_rank_0(run.exit(ends).end()).history(), Reference.of([control, control]))


def judged(case):
    return {check.name: check(case) for check in CHECKS}


@pytest.mark.parametrize("halts", [True, False])
@pytest.mark.parametrize("story", [{}, {"read": 60}, {"saved": "open", "read": 60}])
def test_a_relaunch_that_has_nothing_left_to_do_loses_nothing(story, halts):
    case = last_step(halts=halts, **story)
    assert {verdict.outcome for verdict in judged(case).values()} == {Outcome.PASS}
    assert case.timeline.highest(1) == 60


@pytest.mark.parametrize("halts", [True, False])
def test_what_holds_other_values_than_the_reference_lost_the_gradients(halts):
    found = judged(last_step(wrong=True, halts=halts))
    assert (found["completed"].codes, found["same_data"].codes) == (("exited-early",), ("data-skipped",))


@pytest.mark.parametrize("story", [{"saved": False}, {"saved": False, "read": 40}, {"saved": "open"}])
def test_what_was_never_saved_was_lost(story):
    assert judged(last_step(**story))["completed"].codes == ("exited-early",)


def test_a_save_whose_contents_are_unknown_decides_nothing():
    found = judged(last_step(unseen=True))
    assert found["completed"].outcome is found["same_data"].outcome is Outcome.INCONCLUSIVE
    assert "nothing shows whether the gradients of that rank are in it" in found["completed"].sentence


def test_the_exit_code_counts_all_the_same():
    assert judged(last_step(ends=3))["completed"].codes == ("exited-early",)


def test_a_rank_that_ended_by_itself_took_no_further_step():
    run = Writer(samples=sample, content=content).launch().live(until=19)
    run.live(base=19, until=20, only=[0])
    run.events = [event for event in run.events if event.kind != "process.start" or event.source[-1] == "1"]
    case = Case(run.history(), last_step().reference)
    assert case.timeline.unrecorded == ()


def test_every_rank_that_saves_has_to_have_saved():
    """Each rank saves its part. That of the killed one is missing, so that the checkpoint is none."""
    options = {"samples": sample, "content": content}
    control = Writer(**options).launch().live(ends=True).exit(0).end().history()
    run = Writer(**options).launch().live(until=60, halted=[1], saves=False).save(60).fault().died()
    run.launch().live(base=60, until=60, ends=True).exit(0).end()
    assert checks.completed()(Case(run.history(), Reference.of([control, control]))).codes == ("exited-early",)
