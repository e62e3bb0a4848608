"""`completed`: which end is which."""

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import completed
from chaoskit.protocol.events import RecordGap
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, killed


def struck(at=25):
    return Writer().launch().live(until=at).fault().died()


def test_a_job_that_comes_to_its_last_step_passes():
    assert completed()(killed().case()).outcome is Outcome.PASS


def test_a_job_that_ends_before_its_last_step_exited_early():
    verdict = completed()(struck().launch().live(base=20, until=50, ends=True).exit(0).end().case())
    assert verdict.codes == ("exited-early",)
    assert verdict.evidence["reached"] == {"0": 50, "1": 50}


def test_a_rank_that_leaves_while_the_others_go_on_exited_early():
    run = struck().launch().live(base=20, until=40)
    run.restarted().live(base=40, only=[0], ends=True).exit(0).end()
    verdict = completed()(run.case())
    assert verdict.codes == ("exited-early",)
    assert verdict.evidence["reached"] == {"0": 60, "1": 40}


def test_an_exit_code_other_than_zero_is_no_end():
    assert completed()(Writer().launch().live(ends=True).exit(3).end().case()).codes == ("exited-early",)


def test_a_last_step_that_only_a_struck_life_began_was_not_finished():
    run = Writer(every=25).launch().live().fault().died().launch().live(base=50, until=50, ends=True).exit(0).end()
    verdict = completed()(run.case())
    assert verdict.codes == ("exited-early",)
    assert "nothing shows" in verdict.sentence


def test_a_last_step_with_a_save_after_it_was_finished():
    run = Writer(every=20).launch().live().fault().died().launch().live(base=60, until=60, ends=True).exit(0).end()
    assert completed()(run.case()).outcome is Outcome.PASS


def test_a_hang_names_where_each_rank_stands():
    run = struck().launch().live(base=20, until=30).exit(None, cause="deadline")
    stack = 'Current thread 0x1 (most recent call first):\n  File "/x/train.py", line 7 in step'
    run.say("stack", rank=0, text=stack)
    verdict = completed()(run.end("deadline").case())
    assert verdict.codes == ("hang",)
    assert verdict.sentence.endswith(": rank 0 at train.py:7 in step, rank 1 left no stack")
    assert verdict.evidence["stacks"]["0"].startswith("Current")
    assert verdict.evidence["waits"] == {"0": {"collective": None, "where": "train.py:7 in step"}}


def test_a_hang_in_different_collectives_is_explained():
    run = struck().launch().live(base=20, until=30).exit(None, cause="deadline")
    torch = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    for rank, called, own in ((0, "broadcast", "checkpoint.py"), (1, "all_reduce", "train.py")):
        frames = f'  File "{torch}", line 1 in {called}\n  File "/x/{own}", line 7 in step\n'
        run.say("stack", rank=rank, text=f"Current thread 0x1 (most recent call first):\n{frames}")
    verdict = completed()(run.end("deadline").case())
    said = "rank 0 waits in broadcast (checkpoint.py:7 in step), rank 1 in all_reduce (train.py:7 in step)"
    assert f": {said}: the ranks are in different collectives" in verdict.sentence
    assert verdict.evidence["waits"]["1"] == {"collective": "all_reduce", "where": "train.py:7 in step"}


@pytest.mark.parametrize(
    ("steps", "restarted", "called", "named"),
    [
        (None, True, "init_process_group", True),
        (None, False, "init_process_group", False),
        (3, True, "init_process_group", False),
        (None, True, "broadcast", False),
    ],
)
def test_ranks_that_torchrun_restarted_and_that_never_meet_may_have_old_addresses(steps, restarted, called, named):
    run = Writer().launch().live(until=25).fault()
    run = run.restarted() if restarted else run.died().launch()
    run.live(base=20, until=20 + (steps or 0)).exit(None, cause="hang")
    torch = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    for rank in range(2):
        frames = f'  File "{torch}", line 1 in {called}\n  File "/x/train.py", line 7 in main\n'
        run.say("stack", rank=rank, text=f"Current thread 0x1 (most recent call first):\n{frames}")
    verdict = completed()(run.end("hang").case())
    assert verdict.codes == ("hang",) and ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in verdict.sentence) == named


def test_a_job_that_never_comes_back_is_a_crash_loop():
    verdict = completed()(struck().launch().died().launch().died().end("gave-up").case())
    assert verdict.codes == ("crash-loop",)
    assert "2 relaunches" in verdict.sentence


@pytest.mark.parametrize("code", ["failure-policy-final", "restart-budget-spent"])
def test_a_job_whose_controller_starts_nothing_again_is_no_crash_loop(code):
    run = struck().launch()
    run.say("supervisor.end", launch=1, reason="R", code=code, text="no restart left")
    verdict = completed()(run.exit(None, cause="supervisor").end("gave-up").case())
    assert verdict.codes == (code,) and verdict.sentence == "the job did not recover: no restart left"


def test_what_the_last_launch_died_of_is_told():
    def crashed(*, first="", last=""):
        run = struck().launch().live(base=20, until=20).ended(first).died()
        return completed()(run.launch().live(base=20, until=20).ended(last).died().end("gave-up").case()).sentence

    assert crashed(last="FileNotFoundError: no\n  such file").endswith(
        "the last one exited with code 1; in the last launch rank 0 failed with FileNotFoundError: no such file"
    )
    assert crashed(first="FileNotFoundError: none") == crashed()
    assert crashed().endswith("exited with code 1")


def killed_beside(path, *, unfinished=True):
    """Killed in the checkpoint of step 40, of which only weights were begun; and then no life takes a step."""
    run = Writer().launch().live(until=40, saves=False, extra={20: "/out/step-{}"})
    run.save(full=False, path=path, unfinished=unfinished).fault()
    run.died().launch().live(base=40, until=40).ended("FileNotFoundError: no optimizer").died()
    # In the reference two calls make it.
    control = Writer().launch().live(extra={40: "/out/step-{}"}, ends=True).exit(0).end().history()
    return completed()(run.end("gave-up").case(Reference.of([control, control])))


@pytest.mark.parametrize("unfinished", [True, False])
def test_weights_beside_which_the_rest_was_to_come_are_a_torn_checkpoint(unfinished):
    verdict = killed_beside("/out/step-{}", unfinished=unfinished)
    assert verdict.codes == ("torn-checkpoint", "crash-loop")
    assert "the fault left the save of step 40 unfinished" in verdict.sentence


@pytest.mark.parametrize("path", ["/out/export-{}", "/out", "/out/step-{}/weights"])
def test_an_export_of_weights_elsewhere_is_not(path):
    assert killed_beside(path).codes == ("crash-loop",)


def inside_save(path):
    """Killed inside the save of step 40."""
    return Writer().launch().live(until=40, torn=True, path=path).fault().died()


def test_lives_that_die_on_an_unfinished_save_are_a_torn_checkpoint():
    run = inside_save("step-{}").launch().live(base=40, until=40).load("step-40", error="EOFError").died()
    assert completed()(run.end("gave-up").case()).codes == ("torn-checkpoint", "crash-loop")


def test_a_checkpoint_that_was_removed_before_its_successor_was_written_is_lost():
    def listed(*, reads):
        run = inside_save("step-{}")
        run.say("files", launch=0, files=[["step-40/0", 1]])
        run.launch().live(base=40, until=40)
        if reads:
            run.load("step-40", error="EOFError")
        return completed()(run.died().end("gave-up").case()).codes

    assert listed(reads=False) == ("checkpoint-lost", "crash-loop")
    assert listed(reads=True) == ("checkpoint-lost", "torn-checkpoint", "crash-loop")


def test_a_hang_on_an_unfinished_save_is_torn_too():
    run = inside_save("step-{}").launch().live(base=40, until=40).exit(None, cause="deadline").end("deadline")
    assert completed()(run.case()).codes == ("torn-checkpoint", "hang")


def test_overwriting_the_only_copy_loses_it():
    # The save of 20 had settled; the kill is inside that of 39, at the same path.
    run = Writer(every=20).launch().live(until=39, path="last.pt").save(unfinished=True).fault().died()
    run.launch().live(base=39, until=39).load("last.pt", error="EOFError").died().end("gave-up")
    assert completed()(run.case()).codes == ("torn-checkpoint", "checkpoint-lost", "crash-loop")


@pytest.mark.parametrize("status", ["interrupted", None])
def test_a_run_without_an_end_is_undecided(status):
    run = struck()
    verdict = completed()((run.end(status) if status else run).case())
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))


def test_steps_that_the_record_lost_are_no_early_exit():
    run = killed()
    run.events = [e for e in run.events if not (e.kind == "step" and e["n"] > 30 and e.source == "rank-1-2")]
    case = run.case()
    assert completed()(case).codes == ("exited-early",)
    damaged = History.of([*run.events, RecordGap("rank-1-2", 31)])
    case = type(case)(damaged, case.reference)
    assert completed()(case).codes == ("probe-blind",)


def test_without_a_reference_there_is_no_last_step():
    case = killed().case()
    assert completed()(type(case)(case.history, None)).codes == ("reference-failed",)
