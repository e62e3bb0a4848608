"""What a suite measured: medians, the timeouts that were seen, the recoveries that failed, and nothing that was not."""

from __future__ import annotations

import pytest

from chaoskit.engine.result import Result
from chaoskit.studies.forecast.measured import measured
from tests.studies.forecast.suites import COST, killed, lost, suite


def test_medians_of_the_experiments():
    one = measured(suite(killed("a"), killed("b", stopped_seconds=12.0, recovery_seconds=52.0), killed("c")))
    assert (one.crash_seconds, one.crashes, one.restart_seconds, one.restarts) == (8.0, 3, 30.0, 3)
    assert (one.cost, one.ranks, one.cold, one.ended, one.useful) == (COST, 2, True, True, True)
    assert (one.judged, one.failed, one.extra_intervals) == (3, 0, 0.0)


def test_who_waited_for_the_timeout_tells_how_long_a_hang_takes_and_not_how_long_a_crash_does():
    one = measured(suite(killed("a"), killed("b", stopped_seconds=130.0, recovery_seconds=160.0)))
    assert (one.crash_seconds, one.crashes, one.hang_seconds) == (8.0, 1, 130.0)
    assert measured(suite(killed("a"))).hang_seconds == 120.0, "the timeout of the collectives of the job"
    slow = measured(suite(killed("a"), killed("b", stopped_seconds=20.0)))
    assert (slow.crashes, slow.hang_seconds) == (2, 120.0)
    unknown = measured(suite(killed("a", stopped_seconds=300.0), cost=None))
    assert (unknown.crash_seconds, unknown.hang_seconds) == (300.0, None)


def test_a_recovery_that_failed_is_one_of_those_that_were_judged():
    one = measured(suite(killed("a"), killed("b"), lost(), Result("control", "pass")))
    assert (one.judged, one.failed) == (3, 1)
    low, high = one.failed_interval
    assert 0 < low < 1 / 3 < high < 1


@pytest.mark.parametrize("changed", [{"verdict": "inconclusive"}, {"verdict": "skipped"}, {"trouble": "internal"}])
def test_what_was_not_judged_measured_nothing(changed: dict):
    one = measured(suite(killed(**changed), cost=None))
    assert not one.useful and one.crash_seconds is None and one.judged == 0


def test_a_failure_of_another_kind_came_back_all_the_same():
    assert measured(suite(killed(verdict="fail", codes=("rng-not-restored",)))).failed == 0


def test_a_resume_from_an_older_checkpoint_loses_whole_intervals():
    one = measured(suite(killed("a", resumed_from=10, last_valid=30), killed("b")))
    assert one.extra_intervals == pytest.approx(1.0)
    assert measured(suite(killed("a"), cost=None)).extra_intervals is None


def test_one_warm_launch_makes_the_relaunch_warm():
    assert not measured(suite(killed("a"), killed("b", launched=("warm",)))).cold
    assert measured(suite(killed("a", launched=("cold: it forks",)))).cold
    assert not measured(suite(killed("a", launched=()))).cold


def test_a_suite_without_an_end_or_with_experiments_that_did_not_run_is_incomplete():
    assert not measured(suite(killed(), status="interrupted")).ended
    unrun = Result("late", "skipped", sentences=("not run: budget: 3 min left",))
    assert not measured(suite(killed(), unrun)).ended
    assert measured(suite(killed(), Result("other", "skipped", sentences=("needs 2 nodes",)))).ended
