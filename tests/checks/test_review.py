"""Stories in which a verdict was once wrong."""

from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import (
    completed,
    matches_reference,
    recovered_within,
    resumed_from_last_valid,
    state_restored,
)
from chaoskit.protocol.events import Event
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, truth


def resumed(run, base):
    return run.launch().live(base=base, ends=True).exit(0).end().case()


def test_a_relaunch_without_a_rank_does_not_finish_the_last_step():
    run = Writer(every=25).launch().live(until=60).fault().died().launch().exit(0).end()
    assert completed()(run.case()).codes == ("exited-early",)


def save_that_needed_two_attempts():
    run = Writer().launch().live(until=45)
    events = []
    for event in run.events:
        if event.kind == "save.begin" and event["n"] == 40:
            first = {**event.data, "id": 1000 + event["id"]}
            events.append(Event("save.begin", event.t - 0.005, event.source, first))
            events.append(
                Event("save.end", event.t - 0.004, event.source, {"id": first["id"], "n": 40, "ok": False})
            )
        events.append(event)
    run.events = events
    return run.fault().died()


def test_a_save_that_failed_and_was_made_again_is_valid():
    check = resumed_from_last_valid()
    assert check(resumed(save_that_needed_two_attempts(), 40)).outcome is Outcome.PASS
    assert check(resumed(save_that_needed_two_attempts(), 20)).codes == ("stale-checkpoint",)


def test_an_emergency_save_one_step_after_the_fault_is_right():
    run = Writer().launch().live(until=46, pause=45).save(46).ended().died()
    assert resumed_from_last_valid()(resumed(run, 46)).outcome is Outcome.PASS


def test_what_an_earlier_life_reached_is_no_state_from_the_future():
    run = Writer().launch().live(until=45).fault().died().launch().live(base=20, until=25).fault().died()
    # Only that the second life went back too far is wrong.
    assert resumed_from_last_valid()(resumed(run, 40)).codes == ("stale-checkpoint",)


def idle(number):
    """A job in which some library draws from `random`, which nobody seeds."""

    def tell(name, rank, position):
        return f"python.{number}.{rank}.{position}" if name == "rng.python" else truth(name, rank, position)

    return tell


def test_an_idle_stream_is_not_looked_for_after_a_resume():
    reference = Reference.of([Writer(tell=idle(n)).control().history() for n in (1, 2)])
    run = Writer(tell=idle(3)).launch().live(until=25).fault().died()
    run.truth = idle(4)
    case = run.launch().live(base=20, ends=True).exit(0).end().case(reference)
    assert reference.idle
    assert state_restored()(case).outcome is Outcome.PASS


def test_a_fault_ridden_out_is_not_charged_with_the_next_one():
    run = Writer().launch().live(until=45, pause=5).fault().died()
    case = resumed(run, 40)
    assert recovered_within(seconds=20)(case).outcome is Outcome.PASS
    first, second = case.recoveries
    assert (first.ridden_out, first.relaunches, first.incarnation) == (True, 0, None)
    assert (second.ridden_out, second.relaunches, second.steps_lost) == (False, 1, 5)


def test_a_save_that_was_due_and_never_came_does_not_pass():
    run = Writer().launch().live(until=25).fault().died()
    run = run.launch().live(base=20, until=55, saves=False).fault().died()
    case = run.launch().live(base=20, ends=True).exit(0).end().case()
    verdict = resumed_from_last_valid()(case)
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",)), verdict
    assert "step 40" in verdict.sentence


def test_ranks_that_the_command_itself_starts_again_live_twice():
    case = Writer().launch().live(until=45).fault().live(base=40, ends=True).exit(0).end().case()
    assert [inc.index for inc in case.history.incarnations] == [0, 1]
    for check in (completed(), resumed_from_last_valid(), state_restored(), matches_reference()):
        assert check(case).outcome is Outcome.PASS, check(case)


def test_a_last_save_that_was_torn_and_never_made_again_does_not_pass():
    run = Writer().launch().live(until=60, torn=True).fault().died()
    case = run.launch().live(base=60, until=60, ends=True).exit(0).end().case()
    verdict = completed()(case)
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",)), verdict
    assert "the checkpoint may be incomplete" in verdict.sentence
