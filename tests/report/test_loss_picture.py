"""The picture shows faults, checkpoints and ways back where they were, and nothing that did not happen."""

import re

import pytest

from chaoskit.checks import Case
from chaoskit.report.svg.checkpoint_marks import marks, returns
from chaoskit.report.svg.fault_windows import windows
from chaoskit.report.svg.loss_picture import LEFT, RIGHT, loss_picture
from tests.history_writer import Writer, killed


def standings(case):
    return {(mark.incarnation, mark.position): mark.standing for mark in marks(case)}


def test_a_point_fault_acts_within_a_step():
    (window,) = windows(killed(at=25).case())
    assert (window.first, window.last, window.point, window.seen) == (25, 26, True, True)


def test_a_fault_that_lasts_covers_the_steps_under_it():
    run = Writer().launch().live(until=10)
    run.say("fault.planned", fault=0, what={"text": "slow storage"})
    run.say("fault.applied", fault=0, evidence={})
    run.say("fault.observed", fault=0)
    for step in range(11, 16):
        for rank in (0, 1):
            run.say("step", run._source(rank), n=step, losses=["0x1p+0"], state={})
    run.say("fault.healed", fault=0)
    (window,) = windows(run.exit(0).end("finished").case())
    assert (window.first, window.last, window.point) == (10, 15, False)
    assert str(window) == "slow storage: injected in steps 11 to 15, until it was healed"


def test_a_fault_that_never_struck_has_no_window():
    run = Writer().launch().live(ends=True)
    run.say("fault.planned", fault=0, what={"text": "kill"})
    run.say("fault.requested", fault=0)
    assert windows(run.exit(0).end().case()) == ()


def test_a_fault_that_nobody_saw_take_effect_says_so():
    (window,) = windows(Writer().launch().live(until=25).fault(seen=False).died().end("gave-up").case())
    assert not window.seen and "not observed" in str(window)


def test_a_number_is_changed_in_the_step_that_the_rank_tells():
    run = Writer().launch().live(strike={30: {}}, ends=True).exit(0).end()
    (window,) = windows(run.case())
    assert (window.first, window.last) == (29, 30)


def test_checkpoints_say_what_became_of_them():
    assert standings(killed(at=45, base=40).case()) == {
        (0, 20): "valid", (0, 40): "resumed", (1, 60): "valid",
    }  # fmt: skip


def test_a_newer_one_that_was_passed_over_is_refused():
    case = killed(at=45, base=20).case()
    assert standings(case)[0, 40] == "refused"
    (mark,) = (mark for mark in marks(case) if mark.incarnation == 0 and mark.position == 40)
    assert str(mark) == (
        "checkpoint at step 40, written by incarnation 0: not resumed from by incarnation 1, although it was newer"
    )


def test_one_that_was_never_finished_is_refused():
    run = Writer().launch().live(until=40, torn=True).fault().died()
    case = run.launch().live(base=20, ends=True).exit(0).end().case()
    (mark,) = (mark for mark in marks(case) if (mark.incarnation, mark.position) == (0, 40))
    assert mark.standing == "refused" and mark.harm == "its save never finished"


def test_one_that_was_altered_and_taken_all_the_same_says_both():
    run = Writer().launch().live(until=45).fault().died()
    run.fault("flip a bit", evidence={"save": {"launch": 0, "restart": 0, "n": 40}})
    case = run.launch().live(base=40, off={"optimizer": "bent"}, ends=True).exit(0).end().case()
    (mark,) = (mark for mark in marks(case) if (mark.incarnation, mark.position) == (0, 40))
    assert (mark.standing, mark.harm) == ("resumed", "a fault altered it")


def test_the_way_back_leads_from_what_was_reached():
    (back,) = returns(killed(at=25, base=20).case())
    assert (back.reached, back.to, back.due) == (25, 20, (20,))
    assert str(back) == "incarnation 1 resumed from step 20 after the job had reached step 25"
    (back,) = returns(killed(at=45, base=0).case())
    assert str(back).endswith("resumed from step 0 after the job had reached step 45; expected: step 40")


def test_everything_is_where_it_belongs():
    one = loss_picture(killed(at=25, base=20, off={"optimizer": 0}).case())
    (band,), (arrow,) = one.bands, one.arrows
    assert band.x == one.x(25) and band.width == pytest.approx(one.x(26) - one.x(25), abs=0.2)
    assert arrow.path.startswith(f"M{one.x(25)} ") and f"{one.x(20)} " in arrow.path
    assert one.first_wrong is not None and (one.first_wrong.step, one.first_wrong.x) == (21, one.x(21))
    assert one.first_wrong.name == "first difference: step 21, rank 0: optimizer, loss"
    assert one.y.log, "from 420 down to a hundredth"


def test_of_a_run_that_nothing_happened_to_there_are_lines_only():
    one = loss_picture(Writer().launch().live(ends=True).exit(0).end().case())
    assert one.reference is not None and one.run.path == one.reference.path
    assert not (one.bands or one.arrows or one.branches or one.spots or one.first_wrong)


def test_losses_that_are_not_finite_stand_at_the_edge():
    losses = {(0, 33): "nan", (0, 34): "nan", (1, 40): "inf"}
    one = loss_picture(Writer().launch().live(losses=losses, ends=True).exit(0).end().case())
    assert [spot.title for spot in one.spots] == [
        "The loss of steps 33 to 34 is NaN",
        "The loss of step 40 is infinite",
    ]
    assert "nan" not in one.run.path and "inf" not in one.run.path
    assert one.run.path.count("M") == 3


def test_a_spike_is_inside_of_the_picture_and_at_its_step():
    one = loss_picture(Writer(steps=3000, every=1000).launch().live(
        losses={(0, 1234): (1e5).hex()}, ends=True).exit(0).end().case())  # fmt: skip
    points = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) ([\d.]+)", one.run.path)]
    highest = min(points, key=lambda point: point[1])
    assert highest[0] == one.x(1234) and highest[1] == one.y(5e4) >= one.top
    assert all(LEFT <= x <= RIGHT for x, _ in points)
    assert len(points) <= 4 * (RIGHT - LEFT) + 4


def test_names_of_faults_do_not_lie_on_each_other():
    run = Writer().launch()
    run.live(until=25)
    for number in range(4):
        run.fault(f"fault number {number} with quite a long name that goes on and on")
    one = loss_picture(run.died().launch().live(base=20, ends=True).exit(0).end().case())
    assert len({band.name_y for band in one.bands}) == 4
    assert all(band.name.endswith("…") for band in one.bands)
    assert max(band.name_y for band in one.bands) < one.top


def test_without_a_reference():
    case = Case(killed().history(), None)
    one = loss_picture(case)
    assert one.reference is None and one.run.path and one.first_wrong is None


def test_of_a_job_that_never_stepped_there_is_nothing_to_draw():
    history = Writer().launch().exit(1).end("gave-up").history()
    assert not loss_picture(Case(history, None)).drawn
