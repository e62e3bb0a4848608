"""Checkpoints that a fault altered or that retention removed, and what tensors tell of a state that is nowhere."""

from chaoskit import checks
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, truth

resumed = checks.resumed_from_last_valid()
restored = checks.state_restored()


def flipped(base, *, off=None):
    """Killed at 45, then a bit of the checkpoint of step 40 is flipped."""
    run = Writer().launch().live(until=45).fault()
    run.died().fault("flip a bit", evidence={"file": "x", "save": {"launch": 0, "restart": 0, "n": 40}})
    return run.launch().live(base=base, off=off, ends=True).exit(0).end().case()


def test_falling_back_past_a_damaged_checkpoint_is_right():
    verdict = resumed(flipped(20))
    assert verdict.outcome is Outcome.PASS and verdict.evidence["resumes"][0]["resumed_from"] == 20


def test_taking_a_damaged_checkpoint_is_wrong():
    for off in ({"model": "odd"}, {"optimizer": "odd"}):
        assert resumed(flipped(40, off=off)).codes[0] == "corrupt-accepted"


def test_damage_that_did_not_matter_is_none():
    assert resumed(flipped(40)).outcome is Outcome.PASS


def test_going_back_further_than_needed_is_still_wrong():
    run = Writer(every=10).launch().live(until=45).fault().died()
    run.fault("flip a bit", evidence={"save": {"launch": 0, "restart": 0, "n": 40}})
    assert resumed(run.launch().live(base=20, ends=True).exit(0).end().case()).codes == ("stale-checkpoint",)


def listed(*files):
    run = Writer().launch().live(until=45).fault().died()
    run.say("files", launch=0, files=[[name, 1] for name in files])
    return run.launch().live(base=20, ends=True).exit(0).end().case()


def test_a_checkpoint_that_was_removed_is_lost():
    verdict = resumed(listed("step-20.pt"))
    assert verdict.codes == ("checkpoint-lost", "stale-checkpoint")
    assert "no file of it was left" in verdict.sentence


def test_one_that_is_there_was_only_not_taken():
    assert resumed(listed("step-20.pt", "step-40.pt")).codes == ("stale-checkpoint",)
    assert resumed(listed()).codes == ("stale-checkpoint",)


def test_the_tensor_is_named():
    run = Writer().control()
    run.alive = [0, 1]
    tensors = {"head.weight": "h", "embed.weight": "e", "norm.bias": "n"}
    run.tensors(21, "model", lambda rank: tensors)
    case = Writer().launch().live(until=25).fault().died().launch().live(base=20, off={"model": "odd"}, ends=True)
    case.tensors(1, "model", lambda rank: {**tensors, "head.weight": "other"})
    from chaoskit.analysis.reference.reference import Reference

    case = case.exit(0).end().case(Reference.of([run.history(), run.history()]))
    verdict = restored(case)
    assert "model matches no step of the reference: 1 of 3 tensors differs, head.weight" in verdict.sentence


def test_the_stream_of_another_rank_is_told():
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, ends=True, patch={(1, 21, "rng.torch"): truth("rng.torch", 0, 20)}).exit(0).end()
    verdict = restored(run.case())
    assert "rank 1: RNG not restored (torch CPU stream is that of rank 0 of step 20)" in verdict.sentence


def stops_saving(*, again=(), until=45):
    """Killed after step 45; the saves of steps 20 and 40 are due, of which the job makes those in `again`."""
    run = Writer(every=20).launch().live(until=until, saves=False, extra={at: f"step-{at}.pt" for at in again})
    return run.fault().died().launch().live(base=20, ends=True).exit(0).end().case()


def test_a_job_that_ceased_to_save_lost_what_came_after():
    verdict = resumed(stops_saving(again=(20,)))
    assert verdict.codes == ("stale-checkpoint",)
    assert verdict.sentence.endswith("this run had stopped saving: 25 steps lost")


def test_where_no_save_was_ever_seen_the_probe_may_be_blind():
    assert resumed(stops_saving()).outcome is not Outcome.PASS
    assert "ceased" not in resumed(stops_saving()).sentence


SAVES = [{"launch": 0, "restart": 0, "n": n} for n in (20, 40)]


def altered_newest(base, *, spared=SAVES[:1], path="last.tmp", file="step-40.pt"):
    """Every save is written to one path. After the kill at 45 a fault alters a file of step 40; `spared` are left."""
    run = Writer().launch().live(until=45, path=path).fault().died()
    run.fault("empty the newest", evidence={"files": [{"file": file}], "saves": SAVES[1:], "spared": spared})
    return run.launch().live(base=base, ends=True).exit(0).end().case()


def test_older_saves_under_a_common_temporary_name_are_still_valid():
    """A job that renames what it saved keeps the older ones: only the save that the fault names is altered."""
    verdict = resumed(altered_newest(20))
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence["resumes"][0]["last_valid"] == 20
    assert resumed(altered_newest(0)).codes == ("restarted-from-scratch",)


def test_what_a_later_save_wrote_over_is_gone():
    """A job with one file, which each save overwrites, has nothing else when that file is altered."""
    verdict = resumed(altered_newest(0, spared=[], path="last.pt"))
    assert verdict.codes == ("nothing-to-resume",)
    assert verdict.evidence["resumes"][0]["last_valid"] == 0


def test_what_every_save_writes_over_is_missing_in_the_older_ones_too():
    """The older save is still there, but for the one file that the newer one wrote over and that is altered now."""
    verdict = resumed(altered_newest(0, path="parts", file="parts/0"))
    assert verdict.codes == ("nothing-to-resume",)
    assert verdict.evidence["resumes"][0]["last_valid"] == 0
