"""`resumed_from_last_valid`: which checkpoint was due, and which was taken."""

from chaoskit.checks import resumed_from_last_valid
from chaoskit.protocol.events import Event
from chaoskit.verdict import Outcome
from tests.history_writer import NAMES, Writer, killed, loss, truth

check = resumed_from_last_valid()


def resumed(run, base, **options):
    """The relaunch, and the end of the run."""
    return run.launch().live(base=base, ends=True, **options).exit(0).end().case()


def struck(at=45, **options):
    return Writer().launch().live(until=at, **options).fault().died()


def test_the_newest_settled_checkpoint_is_right():
    verdict = check(resumed(struck(), 40))
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence["resumes"][0]["last_valid"] == 40


def test_an_older_one_is_stale():
    verdict = check(resumed(struck(), 20))
    assert verdict.codes == ("stale-checkpoint",)
    assert "25 steps lost" in verdict.sentence


def test_beginning_again_though_one_was_there_is_scratch():
    assert check(resumed(struck(), 0)).codes == ("restarted-from-scratch",)


def test_beginning_again_before_the_first_save_is_right_and_proves_nothing():
    verdict = check(resumed(struck(at=10), 0))
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("nothing-to-resume",))
    assert "saves for the first time at step 20" in verdict.sentence
    # Nor does one whose only save was under way.
    assert check(resumed(struck(at=20, torn=True), 0)).codes == ("nothing-to-resume",)


def test_one_resume_from_a_checkpoint_is_enough():
    run = struck(at=10).launch().live(base=0, until=25).fault().died()
    assert check(resumed(run, 20)).outcome is Outcome.PASS


def test_a_job_that_never_saves_lost_everything():
    run = Writer(every=1000).launch().live(until=45).fault().died()
    verdict = check(resumed(run, 0))
    assert verdict.codes == ("restarted-from-scratch",)
    assert "no save was ever recorded" in verdict.sentence


def test_a_save_that_stopped_happening_lost_everything():
    assert check(resumed(struck(saves=False), 0)).codes == ("restarted-from-scratch",)


def test_a_probe_with_errors_does_not_accuse():
    run = Writer().launch().live(until=45, saves=False)
    run.say("probe.error", "rank-0-1", where="save", error="boom").fault().died()
    assert check(resumed(run, 0)).codes == ("probe-blind",)


def test_in_the_window_of_a_save_both_are_right():
    for base in (20, 40):
        for torn in (True, False):
            verdict = check(resumed(struck(at=40, torn=torn), base))
            assert verdict.outcome is Outcome.PASS
            assert verdict.evidence["resumes"][0]["acceptable"] == [20, 40]
    assert check(resumed(struck(at=40, torn=True), 0)).codes == ("restarted-from-scratch",)


def test_a_failed_save_is_no_save():
    run = Writer(every=30).launch().live(until=35, saves=False).save(30, ok=False).fault().died()
    # Going back to the beginning was right, but a job whose saves fail has not passed.
    assert check(resumed(run, 0)).codes == ("probe-blind",)


def test_an_emergency_save_after_the_fault_is_right():
    run = Writer().launch().live(until=45).fault("kill rank 1 with SIGTERM").save(45).ended().died()
    assert check(resumed(run, 45)).outcome is Outcome.PASS


def test_overwriting_the_only_copy_and_beginning_again():
    def again(*, looks):
        run = Writer().launch().live(until=39, path="last.pt").save(unfinished=True).fault().died()
        run.launch().live(base=0, path="last.pt")
        run.taken = 0 if looks else run.done  # the steps that were taken before the load
        return check(run.load("last.pt").ended().exit(0).end().case())

    assert again(looks=True).codes == ("checkpoint-lost", "restarted-from-scratch")
    # A job that never looks for a checkpoint would have begun again with an intact one, too. It reads the file only
    # after the training.
    never = again(looks=False)
    assert never.codes == ("restarted-from-scratch", "checkpoint-lost")
    assert "no rank was seen to load a checkpoint before its first step" in never.sentence


def test_a_common_temporary_name_destroys_nothing():
    run = Writer().launch().live(until=39, path="last.tmp").save(unfinished=True).fault().died()
    run.launch().live(base=0, until=0).load("last.pt")
    run.restarted()
    run.lives += 1
    case = run.live(base=0, ends=True).exit(0).end().case()
    assert check(case).codes == ("restarted-from-scratch",)


def test_weights_alone_are_no_checkpoint():
    run = Writer().launch().live(until=30).save(full=False, path="best.pt").fault().died()
    assert check(resumed(run, 20)).outcome is Outcome.PASS


def test_weights_alone_are_none_in_a_directory_like_a_checkpoints_own():
    """Whole, and with steps after it: the job exports after step 30 what nobody resumes from."""
    run = struck(at=35, extra={30: "step-{}.pt"})
    for event in run.events:
        if event.kind == "save.begin" and event["n"] == 30:
            event.data["full"] = False
    assert check(resumed(run, 20)).outcome is Outcome.PASS


def test_a_newer_save_of_another_kind_is_undecided():
    verdict = check(resumed(struck(at=33, extra={30: "best.pt"}), 20))
    assert verdict.codes == ("probe-blind",)
    assert "best.pt" in verdict.sentence


def test_a_position_that_no_save_explains_is_undecided():
    assert check(resumed(struck(), 43)).codes == ("probe-blind",)


def test_a_state_from_the_future_came_from_elsewhere():
    assert check(resumed(struck(at=25), 40)).codes == ("corrupt-accepted",)


def test_a_model_that_the_reference_never_had():
    case = resumed(struck(), 40, off={"model": "random"})
    assert check(case).codes == ("model-not-restored",)


def test_a_torn_save_that_was_taken():
    case = resumed(struck(at=40, torn=True), 40, off={"model": "torn"})
    assert check(case).codes == ("corrupt-accepted", "model-not-restored")


def test_ranks_at_different_checkpoints():
    case = resumed(struck(), 40, off={(1, name): 20 for name in NAMES})
    assert check(case).codes == ("ranks-diverged",)


def test_only_one_rank_restored():
    case = resumed(struck(), 40, off={(1, name): 0 for name in NAMES})
    verdict = check(case)
    assert verdict.codes == ("model-not-restored",)
    assert "rank 1" in verdict.sentence


def test_a_fault_that_was_ridden_out_needs_no_checkpoint():
    verdict = check(Writer().launch().live(pause=30, ends=True).exit(0).end().case())
    assert verdict.outcome is Outcome.PASS
    assert "no restart" in verdict.sentence


def test_a_fault_ridden_out_does_not_hide_what_is_lost_later():
    assert check(resumed(struck(pause=10), 0)).codes == ("restarted-from-scratch",)
    # Even where the job then dies by itself.
    run = Writer().launch().live(until=45, pause=10).died()
    assert check(resumed(run, 0)).codes == ("restarted-from-scratch",)


def test_a_job_that_never_came_back_fails_as_completed_does():
    run = struck()
    assert check(run.launch().died().end("gave-up").case()).codes == ("crash-loop",)


def test_a_second_kill_is_judged_by_what_the_second_life_saved():
    run = struck(at=25).launch().live(base=20, until=45).fault().died()
    assert check(resumed(run, 40)).outcome is Outcome.PASS
    run = struck(at=25).launch().live(base=20, until=45).fault().died()
    verdict = check(resumed(run, 20))
    assert verdict.codes == ("stale-checkpoint",)
    assert len(verdict.evidence["resumes"]) == 2


def test_a_checkpoint_that_was_resumed_from_is_proven():
    run = struck(at=40, torn=True).launch().live(base=40, until=45).fault().died()
    assert check(resumed(run, 20)).codes == ("stale-checkpoint",)


def test_an_elastic_restart_is_a_resume_too():
    run = Writer().launch().live(until=25).fault().restarted().live(base=20, ends=True).exit(0).end()
    verdict = check(run.case())
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence["resumes"][0]["incarnation"] == 1


def test_stories_told_short():
    assert check(killed().case()).outcome is Outcome.PASS


def test_an_asynchronous_save_that_fails_as_its_peers_die_was_on_its_way():
    """On one rank it never ends, on the other with an error, after the fault."""
    verdict = check(asynchronous(steps_after_end=0, base=20, ends=False))
    assert verdict.outcome is Outcome.PASS


def asynchronous(*, steps_after_end, base, ends=True):
    """A save after step 30 is still being written in step 31, and ends before step 32, or fails after the fault."""
    run = Writer(every=10).launch().live(until=30, saves=False, extra={10: "step-10.pt", 20: "step-20.pt"})
    for rank in run.alive:
        call = {"id": 90 + rank, "n": 30, "path": f"step-30.pt/{rank}", "api": "dcp.async_save"}
        run.say("save.begin", f"rank-{rank}-1", **call)
    for step in range(31, 32 + steps_after_end):
        for rank in run.alive:
            state = {name: truth(name, rank, step - 1) for name in run.names}
            run.say("step", f"rank-{rank}-1", n=step, losses=[loss(rank, step)], state=state)
        if step == 31 and ends:
            for rank in run.alive:
                run.say("save.end", f"rank-{rank}-1", id=90 + rank, n=30, ok=True)
    run.fault()
    if not ends:
        run.say("save.end", "rank-0-1", id=90, n=30, ok=False, error="RuntimeError: Connection closed by peer")
    return run.died().launch().live(base=base, ends=True).exit(0).end().case()


def test_an_asynchronous_save_is_published_a_step_after_it_has_ended():
    for base in (20, 30):
        assert check(asynchronous(steps_after_end=1, base=base)).outcome is Outcome.PASS
    assert check(asynchronous(steps_after_end=2, base=30)).outcome is Outcome.PASS
    assert check(asynchronous(steps_after_end=2, base=20)).codes == ("stale-checkpoint",)


def fails_between(requested, applied):
    """A save after step 30 has ended on rank 1, and fails on rank 0: with `requested`, after the kill was requested;
    with `applied`, after it was put down that the kill had been applied."""
    run = Writer(every=10).launch().live(until=30, saves=False, extra={10: "step-10.pt", 20: "step-20.pt"})
    for rank in run.alive:
        call = {"id": 90 + rank, "n": 30, "path": f"step-30.pt/{rank}", "api": "dcp.async_save"}
        run.say("save.begin", f"rank-{rank}-1", **call)
    for step in (31, 32):
        for rank in run.alive:
            state = {name: truth(name, rank, step - 1) for name in run.names}
            run.say("step", f"rank-{rank}-1", n=step, losses=[loss(rank, step)], state=state)
    run.say("save.end", "rank-1-1", id=91, n=30, ok=True)
    before = len(run.events)
    run.fault()
    at = before + (1 + requested + applied)
    t = (run.events[at - 1].t + run.events[at].t) / 2 if at > before else run.events[before].t
    run.events.append(Event("save.end", t, "rank-0-1", {"id": 90, "n": 30, "ok": False, "error": "RuntimeError"}))
    return run.died().launch().live(base=20, ends=True).exit(0).end().case()


def test_the_kill_shows_before_it_is_put_down_on_a_busy_machine():
    assert check(fails_between(True, False)).outcome is Outcome.PASS
    assert check(fails_between(True, True)).outcome is Outcome.PASS
    # Before anything was asked for: the job's saves fail by themselves.
    assert check(fails_between(False, False)).codes == ("probe-blind",)


def test_a_full_disk_that_two_asynchronous_saves_met():
    """The disk is full from step 20 on, when the save of step 10 is still being written; so will that of step 20 be."""

    def full(seen):
        run = Writer(every=10).launch().live(until=10, saves=False)
        for n, steps in ((10, 10), (20, 6)):
            for rank in run.alive:
                call = {"id": n + rank, "n": n, "path": f"step-{n}.pt/{rank}", "api": "dcp.async_save"}
                run.say("save.begin", f"rank-{rank}-1", **call)
            for step in range(n + 1, n + steps + 1):
                for rank in run.alive:
                    state = {name: truth(name, rank, step - 1) for name in run.names}
                    run.say("step", f"rank-{rank}-1", n=step, losses=[loss(rank, step)], state=state)
            if n == 10:
                run.fault("fill the disk", seen=seen, evidence={"error": "ENOSPC"})
            for rank in run.alive:
                run.say("save.end", f"rank-{rank}-1", id=n + rank, n=n, ok=False, error="OSError: ENOSPC")
        return check(run.fault("kill all ranks").died().launch().live(base=0, ends=True).exit(0).end().case())

    assert full(True).codes == ("nothing-to-resume",)
    assert full(False).codes == ("probe-blind",)
