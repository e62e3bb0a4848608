"""The checks of measures: faults_took_effect, recovered_within, no_orphans, controls_agree; and the summary."""

from dataclasses import replace

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.analysis.recovery.recovery import Summary, summary
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case, controls_agree, faults_took_effect, no_orphans, recovered_within, ridden_out
from chaoskit.errors import UsageError
from chaoskit.protocol.events import Event
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, killed, truth


def test_a_fault_that_was_seen_took_effect():
    assert faults_took_effect()(killed().case()).outcome is Outcome.PASS


def test_a_fault_that_nobody_saw_tested_nothing():
    run = Writer().launch().live(ends=True).fault(seen=False).exit(0).end()
    verdict = faults_took_effect()(run.case())
    assert verdict.codes == ("fault-not-observed",)
    assert "not observed to take effect" in verdict.sentence


def test_a_fault_whose_moment_never_came_says_so():
    run = Writer().say("fault.planned", fault=0, what={"text": "kill rank 9"})
    run.launch().live(ends=True).exit(0).end()
    assert "its trigger did not fire" in faults_took_effect()(run.case()).sentence
    run.say("fault.missed", fault=0, evidence={"missed": "it was gone"})
    assert "found no target: it was gone" in faults_took_effect()(run.case()).sentence


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


def test_what_was_waited_out_was_ridden_out():
    waited = Writer().launch().live(pause=30, ends=True).exit(0).end()
    assert ridden_out()(waited.case()).outcome is Outcome.PASS
    restarted = ridden_out()(killed().case())
    assert restarted.codes == ("needless-restart",)
    assert restarted.sentence.endswith(": 1 relaunch, 5 steps lost")
    assert ridden_out()(Writer().control().case()).codes == ("fault-not-observed",)


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
    undisturbed = summary(Writer().control().case())
    assert undisturbed.launch_seconds and undisturbed.step_seconds
    assert replace(undisturbed, launch_seconds=None, step_seconds=None) == Summary()


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


def raised(run, rank, after):
    """A rank of the life just told ends with an exception, so many seconds later."""
    run.t += after
    return run.say("process.end", run._source(rank), clean=False)


def measured(run):
    (one,) = run.case().recoveries
    return one.noticed_seconds, one.stopped_seconds, one.recovery_seconds


def about(*seconds):
    return pytest.approx(seconds, abs=0.2)


def test_detection_is_measured_to_the_first_rank_that_knows_and_to_the_last():
    run = Writer().launch().live(until=25).fault("partition node 0 from node 1")
    raised(raised(run, 1, 3), 0, 2).died()
    run.t += 4
    run.launch().live(base=20, ends=True).exit(0).end()
    assert measured(run) == about(3, 5, 10)


def test_who_was_killed_had_ended_when_the_launch_had():
    run = raised(Writer().launch().live(until=25).fault(), 0, 2)
    run.exit(1).launch().live(base=20, ends=True).exit(0).end()
    assert measured(run) == about(2, 3, 3)


def test_who_was_killed_had_ended_when_the_agent_started_the_next():
    run = raised(Writer().launch().live(until=25).fault(), 0, 2)
    run.t += 5
    run.restarted().live(base=20, ends=True).exit(0).end()
    assert measured(run) == about(2, 7, 7)


def test_it_counts_from_the_packet_that_was_stopped():
    run = Writer().launch().live(until=25).fault("isolate node 1", evidence={"since": 0.0}).died()
    run.launch().live(base=20, ends=True).exit(0).end()
    noticed, stopped, back = measured(run)
    assert noticed == stopped > back


def on_nodes(run):
    """The agents of the ranks that are told of next, a node each."""
    for rank in range(run.ranks):
        run.say("node.start", launch=run.launches, node=f"node{rank}", address=f"10.0.0.{rank}", how="warm")
    return run


def lived_on_nodes(run):
    """The same, every rank on the node of its number."""
    run.events = [
        Event(e.kind, e.t, e.source, {**e.data, "node": f"node{e['rank']}"}) if e.kind == "process.start" else e
        for e in run.events
    ]
    return run


def test_a_lost_node_has_not_noticed_that_it_is():
    run = on_nodes(Writer().launch()).live(until=25).fault("kill node 1")
    run.say("node.end", launch=0, node="node1", code=-9, cause="lost")
    raised(run, 0, 4)
    run.say("node.end", launch=0, node="node0", code=1, cause="itself").exit(1)
    on_nodes(run.launch()).live(base=20, ends=True).exit(0).end()
    assert measured(lived_on_nodes(run)) == about(4, 4, 5)


def test_a_node_that_was_told_to_end_has_noticed():
    run = on_nodes(Writer().launch()).live(until=25).fault("kill node 1")
    run.say("node.end", launch=0, node="node1", code=-9, cause="lost")
    run.t += 2
    # The lost node is back before the other one has ended.
    run.say("node.start", launch=0, node="node1")
    run.t += 1
    run.say("node.end", launch=0, node="node0", code=1, cause="supervisor")
    run.say("node.end", launch=0, node="node1", code=1, cause="supervisor").exit(1)
    on_nodes(run.launch()).live(base=20, ends=True).exit(0).end()
    assert measured(lived_on_nodes(run)) == about(3, 3, 4)


def test_all_were_lost_and_nobody_was_left_to_notice():
    run = on_nodes(Writer(ranks=1).launch()).live(until=25).fault("kill node 0")
    run.t += 1
    run.say("node.end", launch=0, node="node0", code=-9, cause="lost").exit(-9)
    on_nodes(run.launch()).live(base=20, ends=True).exit(0).end()
    assert measured(lived_on_nodes(run)) == about(1, 1, 2)


def test_nodes_are_in_the_history():
    run = on_nodes(Writer().launch()).say("node.end", launch=0, node="node1", code=-9, cause="lost")
    run.say("node.start", launch=0, node="node1").say("node.end", launch=0, node="node7", code=0, cause="itself")
    first, second, third = run.history().nodes
    assert (first.node, first.address, first.how, first.ended) == ("node0", "10.0.0.0", "warm", None)
    assert (second.launch, second.node, second.code, second.cause) == (0, "node1", -9, "lost")
    assert (third.node, third.cause) == ("node1", None) and third.begun > second.ended > second.begun


def test_who_rode_it_out_has_nothing_to_notice():
    assert measured(Writer().launch().live(pause=30, ends=True).exit(0).end())[:2] == (None, None)


def test_who_hung_until_the_deadline_has_noticed_nothing():
    run = Writer().launch().live(until=25).fault("partition node 0 from node 1").exit(None, cause="deadline")
    assert measured(run.end("deadline")) == (None, None, None)


def test_a_fault_between_two_lives_was_noticed_by_nobody():
    run = Writer().launch().live(until=25).died().fault("isolate node 1")
    run.t += 3
    run.launch().live(base=20, ends=True).exit(0).end()
    assert measured(run) == (None, None, pytest.approx(3, abs=0.1))


def test_what_lasted_to_the_end_did_not_keep_the_job():
    run = Writer().launch().live(until=25)
    run.say("fault.planned", fault=0, what={"text": "delay"}).say("fault.applied", fault=0, evidence={})
    run.say("fault.observed", fault=0)
    for step in range(26, 61):
        for rank in run.alive:
            run.say("step", run._source(rank), n=step, losses=[], state={})
    run.exit(0).say("fault.healed", fault=0)
    case = run.end().case()
    (one,) = case.recoveries
    assert one.ridden_out and one.recovery_seconds == pytest.approx(0, abs=0.1)


def test_what_hung_until_it_was_healed_at_the_end_was_not_ridden_out():
    run = Writer().launch().live(until=25)
    run.say("fault.planned", fault=0, what={"text": "isolate"}).say("fault.applied", fault=0, evidence={})
    run.say("fault.observed", fault=0).say("step", run._source(0), n=26, losses=[], state={})
    run.exit(None, cause="deadline").say("fault.healed", fault=0)
    (one,) = run.end("deadline").case().recoveries
    assert (one.ridden_out, one.recovery_seconds) == (False, None)


def test_steps_that_were_taken_under_the_fault_are_lost_too():
    run = Writer().launch().live(until=25)
    run.say("fault.planned", fault=0, what={"text": "loss"}).say("fault.applied", fault=0, evidence={})
    run.say("fault.observed", fault=0)
    for step in range(26, 31):
        for rank in run.alive:
            run.say("step", run._source(rank), n=step, losses=[], state={})
    run.died().launch().live(base=20, ends=True).exit(0).end()
    (one,) = run.case().recoveries
    assert (one.position, one.resumed_from, one.steps_lost) == (30, 20, 10)
