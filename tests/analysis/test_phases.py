"""The phases of a recovery follow one another and are, together, the recovery."""

import pytest

from chaoskit.analysis.recovery.phases import PHASES, phases
from tests.history_writer import Writer, killed


def of(run):
    """The phases of the only recovery, and the recovery."""
    case = run.case()
    (one,) = phases(case.history, case.recoveries)
    return one, case.recoveries[one.fault]


def test_together_they_are_the_recovery_time():
    one, recovery = of(killed(at=25))
    assert sum(one.seconds.values()) == pytest.approx(recovery.recovery_seconds) == one.total
    assert all(seconds >= 0 for seconds in one.seconds.values())
    assert list(one.seconds) == [name for name in PHASES if name in one.seconds]


def test_each_second_goes_to_its_phase():
    run = Writer().launch().live(until=25).fault()
    seen = run.t
    run.t += 2
    run.say("process.end", run._source(0), clean=False)
    noticed = run.t
    run.t += 3
    run.say("launch.end", launch=0, code=1, cause="itself", survivors=[])
    down = run.t
    run.t += 4
    run.launch().live(base=20, until=20)
    run.t += 5
    run.load("step-20.pt")
    run.t += 6
    for rank in (0, 1):
        run.say("step", run._source(rank), n=1, losses=["0x1p+0"], state={"model": "model@20"})
    case = run.exit(0).end().case()
    (one,) = phases(case.history, case.recoveries)
    assert one.begun == seen
    assert one.seconds == pytest.approx(
        {"detection": noticed - seen, "teardown": down - noticed, "relaunch": 9, "load": 0, "first step": 6},
        abs=0.1,
    )


def test_a_job_that_reads_nothing_has_no_load():
    one, _ = of(killed(at=25, base=0))
    assert "load" not in one.seconds


def test_lives_that_never_stepped_are_part_of_the_relaunch_and_counted():
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, until=20).exit(1)
    run.t += 7
    one, recovery = of(run.launch().live(base=20, ends=True).exit(0).end())
    assert one.failed == 1 and one.seconds["relaunch"] > 7
    assert one.total == pytest.approx(recovery.recovery_seconds)


def test_a_restart_inside_the_launch():
    run = Writer().launch().live(until=25).fault()
    one, recovery = of(run.restarted().live(base=20, ends=True).exit(0).end())
    assert one.total == pytest.approx(recovery.recovery_seconds)


def test_a_rollback_in_the_processes_ends_nothing():
    run = Writer().launch().live(until=30).fault("nan").live(base=20, back=True, ends=True)
    one, recovery = of(run.exit(0).end())
    assert list(one.seconds) == ["detection", "load", "first step"]
    assert one.total == pytest.approx(recovery.recovery_seconds)


@pytest.mark.parametrize(
    "run",
    [
        Writer().launch().live(pause=30, ends=True).exit(0).end(),
        Writer().launch().live(until=25).fault().died().end("gave-up"),
        Writer().launch().live(ends=True).exit(0).end(),
    ],
    ids=["ridden out", "never came back", "no fault"],
)
def test_without_another_life_there_are_none(run):
    case = run.case()
    assert phases(case.history, case.recoveries) == ()
