"""What lies on the disk when a launch has ended: `no_checkpoint_lost`, `no_debris`, `disk_use_bounded`."""

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case, disk_use_bounded, no_checkpoint_lost, no_debris
from chaoskit.errors import UsageError
from chaoskit.verdict import Outcome
from tests.history_writer import Writer

MIB = 2**20


def checkpoint(*steps):
    return [[f"checkpoints/step-{step}.pt/{rank}", MIB] for step in steps for rank in (0, 1)]


def told(*ends, control=None, steps=None, **options):
    """Killed at 45 and, if there is a third end, at 55; what lay there when each launch had ended, and a control."""
    options = {"path": "/run/out/checkpoints/step-{}.pt"} | options
    run = Writer(every=20)
    for launch, files in enumerate(ends):
        last = launch == len(ends) - 1
        run.launch().live(base=40 if launch else 0, until=None if last else 45 + 5 * launch, ends=last, **options)
        run = run.exit(0) if last else run.fault().died()
        if files is not None:
            run.say("files", launch=launch, files=files)
    controls = []
    for _ in range(2):
        own = Writer(every=20).launch().live(ends=True, **options).exit(0)
        controls.append(own.say("files", launch=0, files=control or checkpoint(40, 60)).end().history())
    return Case(run.end().history(), Reference.of(controls))


KEPT = checkpoint(40, 60)


def test_the_last_valid_one_was_always_there():
    verdict = no_checkpoint_lost()(told(checkpoint(20, 40), KEPT))
    assert verdict.outcome is Outcome.PASS and verdict.evidence["ends"]["0"] == {"last_valid": 40, "left": True}


def test_a_job_saves_to_one_temporary_name_and_renames_it():
    one_name = {"path": "/run/out/unfinished"}
    assert no_checkpoint_lost()(told(checkpoint(20, 40), KEPT, **one_name)).outcome is Outcome.PASS
    # The names of this one say nothing: nobody knows what the last launch left.
    unnamed = [["checkpoints/newest", MIB]]
    assert no_checkpoint_lost()(told(checkpoint(40), unnamed, control=KEPT, **one_name)).codes == ("probe-blind",)


def test_retention_took_it():
    verdict = no_checkpoint_lost()(told(checkpoint(20), KEPT))
    assert verdict.codes == ("checkpoint-lost",) and verdict.evidence["ends"]["0"]["left"] is False
    assert no_checkpoint_lost()(told(checkpoint(40), checkpoint(20, 40))).codes == ("checkpoint-lost",)
    assert no_checkpoint_lost()(told([], KEPT)).codes == ("checkpoint-lost",)


def test_a_failed_save_was_written_over_it():
    run = Writer(every=20).launch().live(until=40, path="last.pt", torn=True).fault().died()
    run.launch().live(base=0, path="last.pt", ends=True).load("last.pt").exit(0)
    verdict = no_checkpoint_lost()(run.say("files", launch=0, files=[["last.pt", 1]]).end().case())
    assert verdict.codes == ("checkpoint-lost",) and "an unfinished save overwrote" in verdict.sentence


def test_the_last_valid_one_also_where_a_newer_one_was_damaged():
    def left(*steps):
        run = Writer(every=10).launch().live(until=45).fault().died()
        run.say("files", launch=0, files=checkpoint(20, 30, 40))
        spared = [{"launch": 0, "restart": 0, "n": step} for step in (30, 20)]
        run.fault("flip a bit", evidence={"saves": [{"launch": 0, "restart": 0, "n": 40}], "spared": spared})
        run.launch().live(base=30, until=38).fault().died().say("files", launch=1, files=checkpoint(*steps))
        run.launch().live(base=30 if 30 in steps else 20, ends=True).exit(0).say("files", launch=2, files=KEPT)
        return no_checkpoint_lost()(run.end().case())

    assert left(20, 30, 40).outcome is Outcome.PASS
    assert left(20, 40).codes == ("checkpoint-lost",), "kept what was damaged, removed what was whole"


def test_where_names_tell_nothing_the_resume_does():
    plain = [["model.bin", 1]]
    unnamed = {"path": "/run/out/tmp"}
    assert no_checkpoint_lost()(told(plain, control=plain, **unnamed)).outcome is Outcome.PASS, (
        "nor does the control"
    )
    kept = [["tmp/0", 1]]
    assert no_checkpoint_lost()(told(plain, kept, control=kept, **unnamed)).outcome is Outcome.PASS, (
        "it was resumed"
    )
    verdict = no_checkpoint_lost()(told(plain, plain, control=kept, **unnamed))
    assert verdict.codes == ("probe-blind",) and "launch 1" in verdict.sentence


def test_a_job_that_clears_up_at_its_end_may():
    assert (
        no_checkpoint_lost()(told(checkpoint(40), [["model", 9]], control=[["model", 9]])).outcome is Outcome.PASS
    )


def test_without_a_list_of_files_nothing_is_known():
    assert no_checkpoint_lost()(told(None, None)).codes == ("probe-blind",)
    assert no_debris()(told(None, None)).codes == ("probe-blind",)
    assert disk_use_bounded()(told(None, None)).codes == ("probe-blind",)
    for check in (no_checkpoint_lost, no_debris, disk_use_bounded):
        assert check()(Case(told(KEPT).history)).codes == ("reference-failed",)


def left_over(*names):
    return [[f"checkpoints/{name}/0", MIB] for name in names]


def test_one_leftover_may_wait_for_the_next_launch():
    for left in ([], left_over(".tmp-step-45")):
        assert no_debris()(told(KEPT + left, KEPT + left)).outcome is Outcome.PASS
    piled = KEPT + left_over("tmp-45", "tmp-55", "tmp-59")
    assert no_debris()(told(piled, KEPT)).outcome is Outcome.PASS, "the last launch has cleared it away"


def test_leftovers_that_pile_up():
    verdict = no_debris()(told(KEPT + left_over("a.tmp-1"), KEPT + left_over("a.tmp-1", "b.tmp-2")))
    assert verdict.codes == ("debris-left",) and verdict.evidence["counts"] == [1, 2]
    assert "2 leftovers" in verdict.sentence and "checkpoints/b.tmp-2" in verdict.sentence


def test_leftovers_are_told_by_the_saves_that_did_not_end_too():
    run = Writer(every=20)
    for n, base in enumerate((0, 0)):
        run.launch().live(base=base, until=20, path=f"/run/out/{'xy'[n]}", torn=True).fault().died()
        run.say("files", launch=n, files=[])
    run.launch().live(ends=True).exit(0).say("files", launch=2, files=[["x/0", 1], ["y/1", 1], ["crash.log", 1]])
    assert no_debris()(Case(run.end().history(), told(KEPT).reference)).evidence["left"] == ["x", "y"]


def test_what_an_uninterrupted_run_leaves_is_no_debris():
    usual = left_over("tmp-1", "tmp-2")
    assert (
        no_debris()(told(KEPT + left_over("tmp-3", "tmp-4", "tmp-5"), control=KEPT + usual)).outcome
        is Outcome.PASS
    )
    logs = [[f"logs/events.{n}.launch", 1] for n in "abcde"]
    assert no_debris()(told(KEPT, KEPT + logs)).outcome is Outcome.PASS, "a log of each launch"


def test_one_checkpoint_more_and_no_two():
    assert disk_use_bounded()(told(checkpoint(20, 40, 45), KEPT)).outcome is Outcome.PASS
    verdict = disk_use_bounded()(told(KEPT, checkpoint(20, 40, 60, 59)))
    assert verdict.codes == ("disk-use-grows",)
    assert (verdict.evidence["uninterrupted"], verdict.evidence["checkpoint"]) == (4 * MIB, 2 * MIB)
    assert disk_use_bounded(margin=0.5)(told(KEPT, checkpoint(20, 40, 60, 59))).outcome is Outcome.PASS


def test_a_job_that_clears_up_is_judged_at_its_end():
    end = [["model", MIB]]
    assert disk_use_bounded()(told(checkpoint(20, 40), end, control=end)).outcome is Outcome.PASS
    assert disk_use_bounded()(told(end, checkpoint(20, 40), control=end)).codes == ("disk-use-grows",)
    cut = told(checkpoint(20, 40), end, control=end)
    cut.history.end = "gave-up"
    assert disk_use_bounded()(cut).codes == ("probe-blind",)


def test_a_single_file_that_is_written_over_is_one_checkpoint():
    same = {"path": "/run/out/last.pt"}
    control = [["last.pt/0", MIB], ["last.pt/1", MIB]]
    assert (
        disk_use_bounded()(told([*control, ["last.pt.tmp", 2 * MIB]], control=control, **same)).outcome
        is Outcome.PASS
    )


def test_the_margin_is_validated():
    for margin in (-1, "much", True):
        with pytest.raises(UsageError, match="margin"):
            disk_use_bounded(margin=margin)


@pytest.mark.parametrize(("left", "outcome"), [((20, 40), Outcome.PASS), ((20,), Outcome.INCONCLUSIVE)])
def test_a_date_in_the_name_of_another_does_not_tell_that_it_is_there(left, outcome):
    """All were saved at twenty to six: the number of step 40 is in every name."""
    run = Writer(every=20).launch().live(until=45).fault().died()
    run.say("files", launch=0, files=[[f"at_17-40-{step + 31}/{rank}", MIB] for step in left for rank in (0, 1)])
    run.launch().live(base=20, ends=True).exit(0)
    run.say(
        "files", launch=1, files=[[f"at_17-40-{step + 31}/{rank}", MIB] for step in (40, 60) for rank in (0, 1)]
    )
    for event in run.events:
        for step in (20, 40, 60):
            if event.kind == "save.begin" and event["path"].startswith(f"step-{step}.pt"):
                event.data["path"] = event["path"].replace(f"step-{step}.pt", f"/run/out/at_17-40-{step + 31}")
    assert no_checkpoint_lost()(run.end().case()).outcome is outcome


@pytest.mark.parametrize(("base", "codes"), [(20, ()), (0, ("checkpoint-lost",))])
def test_a_save_that_could_not_begin_overwrote_nothing(base, codes):
    """The save of step 40 to the one file fails as it opens it (read-only, stale handle): that of step 20 is still
    there, which the resume from it shows."""
    run = Writer().launch().live(until=39, path="last.pt").save(unfinished=True).fault("read-only").died()
    run.say("files", launch=0, files=[["last.pt/0", 1]])
    run.launch().live(base=base, path="last.pt", ends=True).exit(0)
    verdict = no_checkpoint_lost()(run.say("files", launch=1, files=[["last.pt/0", 1]]).end().case())
    assert verdict.codes == codes, verdict.sentence
