"""The checks of preemption: an emergency checkpoint, a clean stop, a false notice, and all that only looks like one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import emergency_checkpoint, false_notice_ridden_out, recoveries_exact, stopped_cleanly
from chaoskit.checks.registry import from_json
from chaoskit.errors import UsageError
from chaoskit.verdict import Outcome
from tests.history_writer import Writer

GRACE = 6.0
TOLD = {"received": [{"pid": 1, "rank": 1, "after": 0.3}], "asked": 9, "refused": 0, "times": 1}
ALIVE = {"shutdown": None, "ended": None, "killed": None, "withdrawn": None}


class Story(Writer):
    """A job that takes a step a second, saves every 20, and is given notice in the middle of a step."""

    def notice(self, *, cloud="aws", then="kill"):
        self.cloud, self.then, self.given = cloud, then, self.t
        what = {"text": f"preempt node 1 ({cloud})", "action": {"kind": "preempt", "cloud": cloud}}
        self.say("fault.planned", fault=self.faults, what=what)
        self.say("fault.requested", fault=self.faults)
        return self.say("fault.applied", fault=self.faults, evidence={"since": self.given})

    def notice_at(self, step, *, after=0.001, **given):
        """Notice was given right `after` the end of that step."""
        now, told = self.t, self.events
        self.t = max(each.t for each in told if each.kind == "step" and each["n"] == step) + after
        self.events = []
        self.notice(**given)
        self.events, self.t = sorted([*told, *self.events], key=lambda each: each.t), now
        return self

    def over(self, **told):
        """What became of it, now if the job was killed or has ended."""
        after = round(self.t - self.given, 3)
        node = {**TOLD, **ALIVE, **{name: after if value is True else value for name, value in told.items()}}
        evidence = {
            "since": self.given, "grace": GRACE, "cloud": self.cloud, "then": self.then, "nodes": {"node1": node},
        }  # fmt: skip
        self.say("fault.observed", fault=self.faults, evidence=evidence)
        self.faults += 1
        return self

    def evicted(self, grace=GRACE):
        """A cluster took the node back, and the job there has left."""
        self.say("fault.planned", fault=0, what={"text": "evict node 1", "action": {"kind": "evict_node", "node": 1}})
        self.say("fault.applied", fault=0, evidence={"node": "node1", "since": self.t})
        since = self.t
        self.t += 0.4
        self.save().ended()
        told = {"since": since, "grace": grace, "ended": self.t - since, "killed": None, "grace_used_up": False}
        return self.say("fault.observed", fault=0, evidence={**told, "sigterm": {"delivered": True}})

    def alone(self, rank, n):
        """One rank begins to save after its local step `n`, and waits for the others."""
        self.ids += 1
        call = {"id": self.ids, "n": n, "path": f"step-{n}.pt/{rank}", "api": "torch.save", "full": True}
        return self.say("save.begin", self._source(rank), **call)

    def back(self, base, code=143):
        self.exit(code).launch().live(base=base, ends=True)
        return self.exit(0).end()


def saved_and_left(**told):
    """A step after the notice every rank saves, and the job leaves."""
    run = Story().launch().live(until=25)
    run.notice()
    run.t += 0.4
    run.save().ended()
    return run.over(ended=True, **told).back(25)


def weights_alone(run):
    """The same record of a job whose every save is one of weights, as by safetensors."""
    run.events = [
        replace(each, data={**each.data, "full": False}) if each.kind == "save.begin" else each for each in run.events
    ]
    return run


def test_a_job_that_saves_weights_alone_saved_as_well():
    run = weights_alone(saved_and_left())
    of = Reference.of([weights_alone(run.control()).history() for _ in range(2)])
    verdict = emergency_checkpoint()(run.case(of))
    assert verdict.outcome is Outcome.PASS, verdict.sentence
    full = Reference.of([run.control().history() for _ in range(2)])
    assert emergency_checkpoint()(run.case(full)).codes == ("no-emergency-checkpoint",), "an export is none"


def test_saved_and_resumed():
    case = saved_and_left().case()
    verdict = emergency_checkpoint()(case)
    assert verdict.outcome is Outcome.PASS, verdict.sentence
    (row,) = verdict.evidence["notices"]
    assert (row["position"], row["resumed_from"], row["steps_lost"]) == (25, 25, 0)
    assert 0.3 < row["settled"] < 0.7 and row["sufficient_grace"] == row["settled"]
    assert (row["received"], row["asked"], row["grace"], row["killed"]) == (0.3, 9, GRACE, [])
    assert stopped_cleanly()(case).outcome is Outcome.PASS
    assert "ended by itself with code 143" in stopped_cleanly()(case).sentence


def test_within_limits_the_time_to_the_settled_save():
    case = saved_and_left().case()
    assert emergency_checkpoint(within=5)(case).outcome is Outcome.PASS
    verdict = emergency_checkpoint(within=0.1)(case)
    assert verdict.codes == ("emergency-too-late",) and "0.1 s are allowed" in verdict.sentence


def test_saved_and_killed_while_it_trained_on():
    """A save after every step since the notice: step 29, which was under way, is lost, and no other may be."""
    saves = {step: f"step-{step}.pt" for step in (26, 27, 28)}
    for base, codes, lost in ((28, (), 1), (27, ("slow-recovery",), 2)):
        run = Story().launch().live(until=29, extra={step: path for step, path in saves.items() if step <= base})
        run.notice_at(25)
        case = run.over(killed=True).exit(-9).launch().live(base=base, ends=True).exit(0).end().case()
        verdict = emergency_checkpoint()(case)
        assert verdict.codes == codes, verdict.sentence
        assert verdict.evidence["notices"][0]["steps_lost"] == lost and f"{lost} steps" in verdict.sentence
        assert stopped_cleanly()(case).outcome is Outcome.PASS


def test_nobody_learnt_of_it():
    for told, said in (
        ({"asked": 0}, "never asked the metadata service"),
        ({"asked": 9, "refused": 9}, "refused all 9 requests"),
        ({"asked": 9, "refused": 1}, "never for the notice"),
    ):
        run = Story().launch().live(until=25)
        run.notice()
        run.t += 0.5
        case = run.over(received=[], killed=True, **told).back(20, -9).case()
        verdict = emergency_checkpoint()(case)
        assert verdict.codes == ("notice-ignored",) and said in verdict.sentence
        assert stopped_cleanly()(case).codes == ("notice-ignored",)


def test_a_signal_that_nobody_took():
    run = Story().launch().live(until=25)
    run.notice(cloud="slurm")
    case = run.over(received=[], killed=True).back(20, -9).case()
    assert "no process of the job took the signal" in emergency_checkpoint()(case).sentence


def test_of_a_file_nobody_knows_who_has_seen_it():
    run = Story().launch().live(until=25)
    run.notice(cloud="file")
    run.t += 0.4
    run.save().ended()
    case = run.over(received=[], asked=0, ended=True).back(25).case()
    assert emergency_checkpoint()(case).outcome is Outcome.PASS


def test_no_save_was_begun():
    run = Story().launch().live(until=25)
    run.notice()
    run.t += 0.5
    run.ended()
    verdict = emergency_checkpoint()(run.over(ended=True).back(20).case())
    assert verdict.codes == ("no-emergency-checkpoint",) and "learnt of the notice 0.30 s after" in verdict.sentence


def test_a_save_that_the_job_makes_anyway_is_no_emergency_checkpoint():
    """It saves every 20 steps: the one after step 40 came within the grace, and the job went on to step 44."""
    run = Story().launch().live(until=44)
    run.notice_at(38)
    case = run.over(killed=True).exit(-9).launch().live(base=40, ends=True).exit(0).end().case()
    verdict = emergency_checkpoint()(case)
    assert verdict.codes == ("no-emergency-checkpoint",), verdict.sentence
    assert "step 40 is one that it makes without a notice, too" in verdict.sentence


def test_the_save_is_cut_short():
    run = Story().launch().live(until=25)
    run.notice()
    run.t += 0.4
    run.save(unfinished=True)
    run.t += 1.0
    case = run.over(killed=True).back(20, -9).case()
    for history in case.reference.controls:
        for inc in history.incarnations:
            for lifetime in inc.ranks.values():
                lifetime.saves = [replace(one, ended=one.begun + 7.0) for one in lifetime.saves]
    verdict = emergency_checkpoint()(case)
    assert verdict.codes == ("emergency-too-late",)
    assert "ranks 0, 1 began to save after step 25" in verdict.sentence
    assert verdict.evidence["notices"][0]["sufficient_grace"] == pytest.approx(7.4, abs=0.1)
    verdict = stopped_cleanly()(case)
    assert verdict.outcome is Outcome.PASS and "had begun to save before" in verdict.sentence


def test_it_goes_on_and_saves_nothing():
    run = Story().launch().live(until=29)
    run.notice_at(25)
    verdict = stopped_cleanly()(run.over(killed=True).back(20, -9).case())
    assert verdict.codes == ("notice-ignored",) and "went on after the notice as if nothing were" in verdict.sentence


def test_one_rank_saves_alone_and_waits():
    run = Story().launch().live(until=25)
    run.notice()
    run.alone(1, 25)
    run.t += 5.0
    case = run.over(killed=True).back(20, -9).case()
    verdict = emergency_checkpoint()(case)
    assert verdict.codes == ("emergency-torn",)
    assert "rank 1 began to save after step 25" in verdict.sentence and "rank 0 did not" in verdict.sentence
    verdict = stopped_cleanly()(case)
    assert verdict.codes == ("hang",) and verdict.evidence["quiet"] == pytest.approx(5.0, abs=0.1)


def test_it_resumes_from_an_older_one():
    run = Story().launch().live(until=25)
    run.notice()
    run.t += 0.4
    run.save().ended()
    assert emergency_checkpoint()(run.over(ended=True).back(20).case()).codes == ("stale-checkpoint",)


def test_it_begins_again():
    run = Story().launch().live(until=25)
    run.notice()
    run.t += 0.4
    run.save().ended()
    assert emergency_checkpoint()(run.over(ended=True).back(0).case()).codes == ("restarted-from-scratch",)


def test_it_exits_with_0():
    run = Story().launch().live(until=25)
    run.notice()
    run.t += 0.4
    run.save().ended()
    case = run.over(ended=True).exit(0).end().case()
    verdict = stopped_cleanly()(case)
    assert verdict.codes == ("exited-early",) and "code 0 before step 60" in verdict.sentence


@pytest.mark.parametrize(
    ("stops_with", "code", "codes"),
    [(None, 143, ()), (None, 85, ()), (None, 0, ("exited-early",)), (0, 0, ()), (0, 143, ("exited-early",)),
     (85, 85, ()), (85, 1, ("exited-early",)), (85, 0, ("exited-early",))],
)  # fmt: skip
def test_the_exit_code_that_the_scheduler_needs(stops_with, code, codes):
    run = Story().launch(stops_with=stops_with).live(until=25)
    run.notice()
    run.t += 0.4
    run.save().ended()
    verdict = stopped_cleanly()(run.over(ended=True).back(25, code).case())
    assert verdict.codes == codes, verdict.sentence
    if stops_with is not None and codes:
        assert str(stops_with) in verdict.sentence and "--stops-with" in verdict.sentence
    assert not codes or verdict.evidence["code"] == code


def test_a_job_that_has_requeued_itself_needs_no_exit_code():
    run = Story().launch(stops_with=0).live(until=25)
    run.notice()
    run.t += 0.4
    run.save().ended()
    run.over(ended=True).exit(-15, requeued=True, why="back in the queue")
    verdict = stopped_cleanly()(run.launch().live(base=25, ends=True).exit(0).end().case())
    assert verdict.codes == () and "back in the queue of its scheduler" in verdict.sentence


def test_a_job_that_was_done_when_it_left():
    run = Story().launch(stops_with=85).live(ends=True)
    run.notice_at(59)
    assert stopped_cleanly()(run.over(ended=True).exit(0).end().case()).codes == ()


@pytest.mark.parametrize(("until", "codes"), [(28, ()), (30, ("notice-ignored",))])
def test_it_goes_on_although_it_is_told_to_end(until, codes):
    """A few steps may pass until it stops; it may be about to end when it is killed."""
    for told in ({"shutdown": 0.5}, {}):
        run = Story().launch().live(until=until, extra={until: "step-{}.pt"})
        run.notice_at(25, cloud="gcp" if told else "kubernetes")
        case = run.over(killed=True, **told).back(until, -9).case()
        assert stopped_cleanly()(case).codes == codes


def test_a_false_notice():
    run = Story().launch().live(until=25)
    run.notice(then="nothing")
    run.t += 0.4
    run.over()
    run.died().launch().live(base=20, ends=True).exit(0).end()
    verdict = false_notice_ridden_out()(run.case())
    assert verdict.codes == ("needless-restart",)
    run = Story().launch().live(until=25)
    run.notice(then="nothing")
    run.t += 0.4
    run.over(ended=True).exit(0).end()
    verdict = false_notice_ridden_out()(run.case())
    assert verdict.codes == ("exited-early",) and "s after the notice the job ended by itself" in verdict.sentence
    for only_real in (emergency_checkpoint, stopped_cleanly):
        assert only_real()(run.case()).codes == ("fault-not-observed",)


@pytest.mark.parametrize("end", ["hang", "deadline"])
def test_a_job_that_hangs_after_a_false_notice_was_not_restarted(end):
    run = Story().launch().live(until=25)
    run.notice(then="nothing")
    run.t += 60
    assert false_notice_ridden_out()(run.over().end(end).case()).codes == ("hang",)
    # It ended because of the notice, and hung only when it was back.
    run = Story().launch().live(until=25)
    run.notice(then="nothing")
    run.t += 0.4
    run.over()
    run.died().launch().live(base=20, until=30).end(end)
    assert false_notice_ridden_out()(run.case()).codes == ("needless-restart",)


def test_a_false_notice_that_is_ridden_out():
    run = Story().launch().live(ends=True)
    run.notice_at(25, then="nothing")
    case = run.over().exit(0).end().case()
    assert false_notice_ridden_out()(case).outcome is Outcome.PASS


def test_without_a_notice_nothing_was_tested():
    case = Story().launch().live(ends=True).exit(0).end().case()
    for make in (emergency_checkpoint, stopped_cleanly, false_notice_ridden_out):
        assert make()(case).codes == ("fault-not-observed",)


def test_where_the_probe_sees_no_saves_it_is_not_known():
    blind = Story(every=1000).launch().live(until=25)
    blind.notice()
    verdict = emergency_checkpoint()(blind.over(killed=True).back(0, -9).case())
    assert verdict.codes == ("probe-blind",)


def test_they_come_back_from_json():
    for made in (emergency_checkpoint(within=5), emergency_checkpoint(), stopped_cleanly(), false_notice_ridden_out()):
        assert from_json(made.to_json()) == made
    with pytest.raises(UsageError, match="within must be a positive number"):
        emergency_checkpoint(within=0)


def struck_twice(*, second=True, base=25):
    """Two notices, the second after step 35 of the relaunched job; without a save if it is not `second`."""
    run = Story().launch().live(until=25)
    run.notice()
    run.t += 0.4
    run.save().ended()
    run.over(ended=True).exit(143).launch().live(base=base, until=35)
    run.notice()
    run.t += 0.4
    if second:
        run.save()
    run.ended()
    return run.over(ended=True).back(35 if second else 25).case()


def test_every_notice_of_a_schedule_is_judged():
    verdict = emergency_checkpoint()(struck_twice())
    assert verdict.outcome is Outcome.PASS and verdict.sentence.startswith("after each of 2 notices a checkpoint")
    assert [row["position"] for row in verdict.evidence["notices"]] == [25, 35]
    assert "after each of 2 notices" in stopped_cleanly()(struck_twice()).sentence
    assert emergency_checkpoint()(struck_twice(second=False)).codes == ("no-emergency-checkpoint",)
    assert emergency_checkpoint()(struck_twice(base=20)).codes == ("stale-checkpoint",), "the first one"


def test_before_a_step_was_taken_there_is_nothing_to_save():
    run = Story().launch().live(until=25)
    run.notice()
    run.t += 0.4
    run.save().ended()
    run.over(ended=True).exit(143).launch()
    run.notice()  # while the processes start
    run.t += 0.4
    case = run.over(ended=True).back(25).case()
    verdict = emergency_checkpoint()(case)
    assert verdict.outcome is Outcome.PASS and "1 more called for no checkpoint" in verdict.sentence
    assert stopped_cleanly()(case).outcome is Outcome.PASS
    run = Story().launch()
    run.notice()
    run.t += 0.4
    case = run.over(ended=True).back(0).case()
    for check in (emergency_checkpoint, stopped_cleanly):
        verdict = check()(case)
        assert verdict.outcome is Outcome.INCONCLUSIVE and "had taken no step" in verdict.sentence


def test_a_notice_before_the_first_step_proves_nothing():
    """The processes were still starting; their first steps came when most of the grace was over."""
    run = Story().launch().live(until=25)
    run.exit(-9).launch().live(base=20, until=23).notice_at(1, after=-0.015)
    case = run.over(received=[], asked=1, killed=True).back(20, -9).case()
    for check in (emergency_checkpoint, stopped_cleanly):
        verdict = check()(case)
        assert verdict.outcome is Outcome.INCONCLUSIVE and "had taken no step" in verdict.sentence


@pytest.mark.parametrize("killed", [False, True])
def test_a_job_that_comes_to_its_end_in_the_grace_has_nothing_to_save(killed):
    run = Story(steps=55).launch().live(ends=True)
    run.notice_at(55)
    case = run.over(**{"killed" if killed else "ended": True}).exit(-9 if killed else 0).end().case()
    verdict = emergency_checkpoint()(case)
    if killed:
        assert verdict.codes == ("no-emergency-checkpoint",), "it was not done"
    else:
        assert verdict.outcome is Outcome.INCONCLUSIVE and "came to its end" in verdict.sentence


def test_an_eviction_is_a_notice():
    run = Story().launch().live(until=25)
    case = run.evicted().back(25).case()
    verdict = emergency_checkpoint()(case)
    assert verdict.outcome is Outcome.PASS, verdict.sentence
    (row,) = verdict.evidence["notices"]
    assert (row["cloud"], row["position"], row["received"], row["killed"]) == ("kubernetes", 25, 0.0, [])
    assert stopped_cleanly()(case).outcome is Outcome.PASS
    case = Story().launch().live(until=25).evicted().back(20).case()
    assert emergency_checkpoint()(case).codes == ("stale-checkpoint",)


@pytest.mark.parametrize("kept", [True, False])
def test_a_strike_after_the_last_step_leaves_nothing_to_recover(kept):
    """The relaunched job has no step to take; without the state after the last one, it ought to."""
    run = Story(steps=55).launch().live(until=55)
    if kept:
        run.save()
    run.notice(cloud="kubernetes")
    run.t += 0.1
    run.ended()
    case = run.over(ended=True).exit(143).launch().live(base=55, until=55, ends=True).exit(0).end().case()
    verdict = recoveries_exact()(case)
    assert verdict.codes == (("nothing-to-resume",) if kept else ("exited-early",)), verdict.sentence
