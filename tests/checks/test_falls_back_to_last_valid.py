"""`falls_back_to_last_valid`: what was damaged at rest is refused, and the newest whole checkpoint taken, unaided."""

import pytest

from chaoskit.checks import completed, falls_back_to_last_valid, resumed_from_last_valid, state_restored
from chaoskit.verdict import Outcome
from tests.history_writer import Writer

check = falls_back_to_last_valid()
#: The saves after 10, 20, 30 and 40 steps; retention has kept the last three.
KEPT = (40, 30, 20)


def saves(*steps):
    return [{"launch": 0, "restart": 0, "n": step} for step in steps]


def damaged(*steps, text="truncate a file", heal=None):
    """Killed at 45; then the checkpoints of these steps are damaged, of the three that there are."""
    run = Writer(every=10).launch().live(until=45).fault().died()
    spared = [step for step in KEPT if step not in steps]
    files = [{"file": f"step-{step}.pt/1"} for step in steps]
    return run.fault(text, evidence={"files": files, "saves": saves(*steps), "spared": saves(*spared)})


def put_back(run, *steps):
    """Launched in vain; then the files are put back."""
    run.launch().died()
    return run.say("fault.healed", fault=1, evidence={"mended": saves(*steps)})


def resumes(run, base, **options):
    return run.launch().live(base=base, ends=True, **options).exit(0).end().case()


@pytest.mark.parametrize(("steps", "base"), [((40,), 30), ((40, 30), 20)])
def test_the_newest_whole_one_is_right(steps, base):
    verdict = check(resumes(damaged(*steps), base))
    assert verdict.outcome is Outcome.PASS
    assert f"the job resumed from step {base}, the newest intact checkpoint" in verdict.sentence


def test_a_launch_that_fails_on_the_way_is_no_person():
    assert check(resumes(damaged(40).launch().died(), 30)).outcome is Outcome.PASS


def test_what_was_damaged_must_not_be_taken():
    verdict = check(resumes(damaged(40), 40, off={"model": "odd"}))
    assert verdict.codes[0] == "corrupt-accepted"


def reads(*paths):
    """It goes on from step 40 to the bit, once it has read these."""
    run = damaged(40).launch().live(base=40, until=40)
    for path in paths:
        run.load(path)
    run.lives -= 1
    return check(run.live(base=40, ends=True).exit(0).end().case())


@pytest.mark.parametrize(
    "paths", [["{out}/step-40.pt"], ["step-30.pt", "step-40.pt"], ["copy-40.pt", "step-40.pt"]]
)
def test_what_was_read_and_did_not_matter(paths):
    verdict = reads(*paths)
    assert verdict.outcome is Outcome.PASS and "made no difference" in verdict.sentence


@pytest.mark.parametrize("paths", [[], ["copy-40.pt"], ["step-4.pt"]])
def test_what_nobody_read_proves_nothing(paths):
    """There is another copy, or nothing shows what was read."""
    verdict = reads(*paths)
    assert verdict.outcome is Outcome.INCONCLUSIVE and verdict.codes == ("fault-not-observed",)
    assert "was not observed to read the altered files (step-40.pt/1)" in verdict.sentence


def test_a_mixture_of_two_is_damage_that_was_taken():
    """The shard of step 20 in the checkpoint of step 40: a model that never was, and the data from 20 on."""
    off = {"model": "mixed", "optimizer": 20, "lr": 20, "batch": 20, "rng.torch": 20}
    verdict = check(resumes(damaged(40), 20, off=off))
    assert verdict.codes[0] == "corrupt-accepted" and "the job loaded" in verdict.sentence


def test_further_back_than_needed_loses_work():
    assert check(resumes(damaged(40), 20)).codes == ("stale-checkpoint",)
    assert check(resumes(damaged(40), 0)).codes == ("restarted-from-scratch",)


@pytest.mark.parametrize("base", [40, 20])
def test_only_an_older_one_was_damaged_and_the_newest_may_hang_on_it(base):
    case = resumes(damaged(30), base)
    assert check(case).outcome is resumed_from_last_valid()(case).outcome is Outcome.PASS
    hangs = "newer checkpoints may depend on the altered one" in check(case).sentence
    assert hangs == (base == 20)


def test_only_an_older_one_was_damaged_and_whole_ones_were_left_out():
    assert check(resumes(damaged(30), 30)).outcome is Outcome.FAIL, "the newest was whole"
    assert check(resumes(damaged(30), 10)).codes == ("stale-checkpoint",)
    assert check(resumes(damaged(20), 30)).codes == ("stale-checkpoint",), "whatever was damaged is older"
    assert check(resumes(damaged(30), 0)).codes == ("restarted-from-scratch",)
    assert check(resumes(damaged(30), 40, off={"model": "odd"})).codes[0] != "stale-checkpoint"


def test_what_was_damaged_and_made_anew_since_is_no_excuse():
    run = damaged(40).launch().live(base=30, until=45).fault().died()
    assert resumed_from_last_valid()(resumes(run, 30)).codes == ("stale-checkpoint",)


def test_what_retention_had_removed_before_is_no_checkpoint_to_fall_back_to():
    case = resumes(damaged(*KEPT), 0)
    assert case.resumes[0].last_valid == 0, "that of step 10 was gone"


def test_all_are_damaged_and_it_begins_again():
    case = resumes(damaged(*KEPT), 0)
    verdict = check(case)
    assert verdict.codes == ("restarted-from-scratch",) and "45 steps lost" in verdict.sentence
    assert "no checkpoint was still valid" in resumed_from_last_valid()(case).sentence


def test_all_are_damaged_and_it_waits_for_a_person():
    verdict = check(resumes(put_back(damaged(*KEPT), *KEPT), 40))
    assert verdict.outcome is Outcome.PASS
    assert "the job refused to go on; when the files had been put back, it resumed from step 40" in verdict.sentence


def test_once_they_are_back_the_last_valid_one_is_due_again():
    assert check(resumes(put_back(damaged(*KEPT), *KEPT), 30)).codes == ("stale-checkpoint",)
    assert check(resumes(put_back(damaged(*KEPT)), 40, off={"model": "odd"})).codes[0] == "corrupt-accepted"


@pytest.mark.parametrize("comes_up", [True, False])
def test_another_one_was_whole_and_it_waited_for_a_person(comes_up):
    run = damaged(40).launch()
    if comes_up:
        run.live(base=30, until=30)
    run.died().say("fault.healed", fault=1, evidence={"mended": saves(40)})
    verdict = check(resumes(run, 40))
    assert verdict.codes == ("torn-checkpoint",) and "a person has to intervene" in verdict.sentence


def test_it_never_comes_back():
    run = damaged(40)
    for _ in range(3):
        run.launch().died()
    verdict = check(run.end("gave-up").case())
    assert verdict.codes == ("torn-checkpoint", "crash-loop") and "no launch reached a step" in verdict.sentence


def test_it_hangs_on_it():
    case = damaged(40).launch().live(base=30, until=30).exit(1, cause="deadline").end("deadline").case()
    assert completed()(case).codes[-1] == "hang"
    assert check(case).codes[0] == "torn-checkpoint" and check(case).codes[-1] == "hang"


def test_a_pointer_is_no_checkpoint():
    def stale(base):
        run = Writer(every=10).launch().live(until=45).fault().died()
        return check(resumes(run.fault("put the pointer back", evidence={"files": [{"file": "latest"}]}), base))

    assert stale(40).outcome is Outcome.PASS
    assert stale(30).codes == ("stale-checkpoint",)
    run = Writer(every=10).launch().live(until=45).fault().died().fault("dangling", evidence={"files": []})
    assert check(run.launch().died().end("gave-up").case()).codes == ("torn-checkpoint", "crash-loop")


def test_each_damage_is_judged():
    def again(base):
        run = damaged(40).launch().live(base=30, until=48).fault().died()
        newest = [{"launch": 1, "restart": 0, "n": 10}]
        run.fault("flip a bit", evidence={"files": [], "saves": newest, "spared": saves(30, 20)})
        return check(resumes(run, base))

    assert again(30).outcome is Outcome.PASS and len(again(30).evidence["damages"]) == 2
    assert again(20).codes == ("stale-checkpoint",)


def test_nothing_was_damaged():
    run = Writer().launch().live(until=45).fault().died()
    assert check(resumes(run, 40)).codes == ("fault-not-observed",)
    unseen = Writer(every=10).launch().live(until=45).died()
    unseen.fault("flip a bit", seen=False, evidence={"saves": saves(40)})
    assert check(resumes(unseen, 30)).codes == ("fault-not-observed",)


def test_the_next_fault_came_before_a_step():
    run = damaged(40).launch().died().fault("flip a bit", evidence={"saves": saves(30), "spared": saves(20)})
    verdict = check(resumes(run, 20))
    assert verdict.outcome is Outcome.INCONCLUSIVE


def told(**changed):
    """What a save of step 40 was given, or what came back of it."""
    return {"model.w": "a" * 32, "rng": "b" * 32, "progress.step": "=40", **changed}


@pytest.mark.parametrize(
    ("off", "code"), [({"rng.torch": 0}, "rng-not-restored"), ({"model": "odd"}, "model-not-restored")]
)
@pytest.mark.parametrize(("came_back", "blamed"), [(told(), False), (told(rng="c" * 32), True)])
def test_damage_is_blamed_only_where_altered_bytes_were_read(off, code, came_back, blamed):
    """The job read the checkpoint that a fault had altered. Where all that came back is what was saved, a bug of the
    resume is what it always is, and not corruption."""
    run = damaged(40)
    for event in run.events:
        if event.kind == "save.begin" and event["n"] == 40:
            event.data["content"] = told()
    run.launch().live(base=40, off=off, ends=True).load("step-40.pt", content=lambda rank: came_back)
    case = run.exit(0).end().case()
    for claim in (check, resumed_from_last_valid()):
        assert ("corrupt-accepted" in claim(case).codes) == blamed
    assert code in state_restored()(case).codes
