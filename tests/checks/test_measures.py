"""The checks of measures: faults_took_effect, recovered_within, no_orphans, controls_agree; and the summary."""

import pytest

from chaoskit.checks import Case, controls_agree, faults_took_effect, no_orphans, recovered_within
from chaoskit.errors import UsageError
from chaoskit.history import History
from chaoskit.recovery import Summary, summary
from chaoskit.reference import Reference
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, killed, truth


def test_a_fault_that_was_seen_took_effect():
    assert faults_took_effect()(killed().case()).outcome is Outcome.PASS


def test_a_fault_that_nobody_saw_tested_nothing():
    run = Writer().launch().live(ends=True).fault(seen=False).exit(0).end()
    verdict = faults_took_effect()(run.case())
    assert verdict.codes == ("fault-not-observed",)
    assert "never seen" in verdict.sentence


def test_a_fault_whose_moment_never_came_says_so():
    run = Writer().say("fault.planned", fault=0, what={"text": "kill rank 9"})
    run.launch().live(ends=True).exit(0).end()
    assert "its moment did not come" in faults_took_effect()(run.case()).sentence
    run.say("fault.missed", fault=0, evidence={"missed": "it was gone"})
    assert "found nothing to strike: it was gone" in faults_took_effect()(run.case()).sentence


def test_a_run_without_faults_tested_nothing():
    assert faults_took_effect()(Writer().control().case()).codes == ("fault-not-observed",)


def test_recovery_is_measured_in_seconds_and_steps():
    case = killed().case()
    assert recovered_within(seconds=2, steps=5)(case).outcome is Outcome.PASS
    assert recovered_within(steps=4)(case).codes == ("slow-recovery",)
    verdict = recovered_within(seconds=0.5)(case)
    assert verdict.codes == ("slow-recovery",)
    assert "the limit is 0.5 s" in verdict.sentence


def test_a_pause_is_recovered_from_when_steps_go_on():
    case = Writer().launch().live(pause=30, ends=True).exit(0).end().case()
    assert recovered_within(seconds=4, steps=0)(case).outcome is Outcome.PASS
    (measured,) = case.recoveries
    assert (measured.ridden_out, measured.incarnation, measured.steps_lost) == (True, None, 0)


def test_who_never_came_back_did_not_come_back_in_time():
    run = Writer().launch().live(until=25).fault().died().launch().died().end("gave-up")
    verdict = recovered_within(seconds=60)(run.case())
    assert verdict.codes == ("crash-loop",)


def test_without_a_fault_there_is_no_recovery():
    assert recovered_within(seconds=1)(Writer().control().case()).codes == ("fault-not-observed",)


@pytest.mark.parametrize(
    ("options", "named"),
    [({}, "seconds"), ({"seconds": 0}, "seconds"), ({"seconds": True}, "seconds"), ({"steps": -1}, "steps")],
)
def test_limits_are_validated(options, named):
    with pytest.raises(UsageError, match=named):
        recovered_within(**options)


def test_the_summary_is_that_of_the_worst_fault():
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, until=55).fault().died().launch().live(base=40, ends=True).exit(0).end()
    told = summary(run.case())
    assert (told.resumed_from, told.last_valid, told.steps_lost, told.relaunches) == (40, 40, 15, 2)
    assert told.recovery_seconds == pytest.approx(1.05, abs=0.1)
    assert summary(Writer().control().case()) == Summary()


def test_relaunches_and_restarts_are_told_apart():
    run = Writer().launch().live(until=25).fault().restarted().live(base=20, ends=True).exit(0).end()
    (measured,) = run.case().recoveries
    assert (measured.relaunches, measured.restarts) == (0, 1)
    (measured,) = killed().case().recoveries
    assert (measured.relaunches, measured.restarts) == (1, 0)
    assert measured.detection_seconds is not None
    assert measured.detection_seconds < measured.recovery_seconds


def test_survivors_are_orphans():
    survivor = {"pid": 7, "command": "python train.py"}
    run = Writer().launch().live(ends=True).exit(0, survivors=[survivor]).end()
    verdict = no_orphans()(run.case())
    assert verdict.codes == ("orphans",)
    assert "python train.py (7)" in verdict.sentence


def test_who_kills_the_launcher_does_not_blame_the_job():
    run = Writer().launch().live(until=25).fault().exit(-9, cause="fault", survivors=[{"pid": 7}])
    assert no_orphans()(run.case()).codes == ("probe-blind",)
    run.launch().live(base=20, ends=True).exit(0).end()
    assert no_orphans()(run.case()).outcome is Outcome.PASS


def test_controls_that_agree_pass_and_others_are_undecided():
    assert controls_agree()(killed().case()).outcome is Outcome.PASS
    other = Writer(tell=lambda name, rank, position: truth(name, rank, position) + "'").control().history()
    reference = Reference.of([Writer().control().history(), other])
    assert controls_agree()(Case(History(), reference)).codes == ("not-deterministic",)
    assert controls_agree()(Case(History(), None)).codes == ("reference-failed",)
