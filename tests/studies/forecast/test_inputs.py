"""The numbers of a forecast: first those of the user, then measured ones, then defaults; each says which it is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from chaoskit.analysis.checkpoints.cost import SaveCost
from chaoskit.errors import UsageError
from chaoskit.studies.forecast.inputs import ForecastRequest, inputs
from chaoskit.studies.forecast.measured import measured
from tests.studies.forecast.suites import COST, killed, lost, suite


def origins(found, *names: str) -> list[str]:
    """Where these numbers come from."""
    return [found.figure(name).origin for name in names]


def test_without_a_suite_nothing_is_measured():
    found = inputs(ForecastRequest(1024, 30))
    assert {each.origin for each in found.figures} == {"assumed"}
    assert len({each.name for each in found.figures}) == len(found.figures) > 25
    assert all(each.source and each.text and each.shown and each.change for each in found.figures)


def test_what_the_user_states_is_theirs():
    stated = {"relaunch": 60.0, "interval": 1200.0, "spares": 4.0}
    found = inputs(ForecastRequest(1024, 30, 2.5, 40_000, "llama3", stated))
    assert origins(found, "price", "mtbf-gpu-hours", "relaunch", "interval", "spares") == ["stated"] * 5
    assert (found.price, found.plan.recovery.relaunch_seconds, found.plan.cluster.spares) == (2.5, 60.0, 4)
    assert found.plan.checkpointing.interval_seconds == 1200.0
    assert found.plan.mtbf_seconds == pytest.approx(40_000 / 1024 * 3600)


def test_what_a_suite_measured_is_carried_over_and_says_so():
    found = inputs(ForecastRequest(1024, 30), measured(suite(killed("a"), killed("b"))))
    assert origins(found, "crash-detection", "relaunch", "writing") == ["extrapolated"] * 3
    assert origins(found, "hang-detection", "asynchronous") == ["measured"] * 2
    recovery = found.plan.recovery
    assert (recovery.crash_seconds, recovery.hang_seconds) == (8.0, 120.0)
    # 30 s on two ranks, and 30 s more for each of the nine doublings to 1,024.
    assert recovery.relaunch_seconds == pytest.approx(30 + 9 * 30)
    assert "2 ranks" in found.figure("crash-detection").source and "9.0 doublings" in found.figure("relaunch").source


def test_a_save_takes_what_was_measured_and_the_larger_rest_at_the_bandwidth():
    stated = {"checkpoint-size": 12e9, "bandwidth": 1e9}
    one = inputs(ForecastRequest(64, 30, stated=stated), measured(suite(killed())))
    assert one.plan.checkpointing.blocking_seconds == pytest.approx(4.0 + 10.0)
    same = inputs(ForecastRequest(64, 30, stated={**stated, "checkpoint-size": 2e9}), measured(suite(killed())))
    assert same.plan.checkpointing.blocking_seconds == pytest.approx(4.0)
    assert inputs(ForecastRequest(64, 30, stated=stated)).plan.checkpointing.blocking_seconds == pytest.approx(12.0)
    assert inputs(ForecastRequest(64, 30, stated=stated)).figure("writing").origin == "stated"


def test_asynchronous_saves_block_shortly_and_write_the_rest_behind():
    stated = {"asynchronous": 1.0, "async-blocking": 3.0, "checkpoint-size": 10e9, "bandwidth": 1e9}
    saves = inputs(ForecastRequest(64, 30, stated=stated)).plan.checkpointing
    assert (saves.blocking_seconds, saves.background_seconds) == (3.0, 7.0)


def test_a_suite_that_saved_in_the_background_tells_how_long_that_holds_up_the_steps():
    saves = (SaveCost("dcp.async_save", 6, True, True, blocking_seconds=0.5, whole_seconds=8.0, bytes=2_000_000_000),)
    found = inputs(ForecastRequest(2, 30), measured(suite(killed(), cost=replace(COST, saves=saves))))
    assert origins(found, "asynchronous", "async-blocking") == ["measured", "extrapolated"]
    own = found.plan.checkpointing
    assert (own.blocking_seconds, own.background_seconds) == (0.5, pytest.approx(7.5))


def test_a_warm_launch_is_not_taken_for_that_of_a_cluster():
    found = inputs(ForecastRequest(1024, 30), measured(suite(killed(launched=("warm",)))))
    assert found.plan.recovery.relaunch_seconds == 300.0
    figure = found.figure("relaunch")
    assert figure.origin == "assumed" and "--launch cold" in figure.source


def test_recoveries_that_failed_count_and_none_of_a_few_is_no_proof_of_none():
    some = inputs(ForecastRequest(1024, 30), measured(suite(killed("a"), killed("b"), killed("c"), lost())))
    assert some.plan.recovery.failed_share == 0.25
    assert some.figure("failed-recoveries").origin == "extrapolated"
    assert "1 of 4 experiments" in some.figure("failed-recoveries").source
    none = inputs(ForecastRequest(1024, 30), measured(suite(killed("a"), killed("b"))))
    assert none.plan.recovery.failed_share == pytest.approx(3 / 419)
    assert none.figure("failed-recoveries").origin == "assumed" and "0 of 2" in none.figure("failed-recoveries").source


def test_racks_and_spot_nodes_fail_only_where_they_are_stated():
    plain = inputs(ForecastRequest(1024, 30)).plan.failures
    stated = {"rack-mtbf": 3.6e7, "spot-mtbf": 7200.0, "nodes-per-rack": 4.0}
    more = inputs(ForecastRequest(1024, 30, stated=stated)).plan.failures
    assert {each.name for each in more} - {each.name for each in plain} == {"rack", "spot reclaim"}
    rack = next(each for each in more if each.name == "rack")
    assert (rack.nodes_lost, rack.mtbf_hours, rack.symptom) == (4, 10_000.0, "hang")
    # A job that is smaller than a rack loses what it has.
    small = inputs(ForecastRequest(8, 30, stated=stated)).plan
    assert next(each for each in small.failures if each.name == "rack").nodes_lost == 1


@pytest.mark.parametrize(("stated", "taken"), [(60.0, 60.0), (7200.0, None), (0.0, None)])
def test_a_memory_tier_only_where_it_is_shorter_than_the_interval(stated: float, taken: float | None):
    plan = inputs(ForecastRequest(64, 3, stated={"memory-interval": stated})).plan
    assert plan.checkpointing.memory_interval_seconds == taken


def test_how_many_checkpoints_are_kept_is_seen_on_the_disk():
    found = inputs(ForecastRequest(64, 30), measured(suite(killed())))
    assert found.keep == 3 and found.figure("keep").origin == "measured"
    assert inputs(ForecastRequest(64, 30, stated={"keep": 7.0}), measured(suite(killed()))).keep == 7


@pytest.mark.parametrize("gpus", [1, 8, 1024, 100_000, 10_000_000])
def test_the_defaults_fit_every_size_of_job(gpus: int):
    plan = inputs(ForecastRequest(gpus, 1)).plan
    assert 1 <= plan.cluster.spares <= plan.cluster.nodes
    assert plan.checkpointing.blocking_seconds < 60


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"gpus": 0}, "gpus"), ({"gpus": 10**30}, "gpus"), ({"days": 0}, "days"), ({"days": math.nan}, "days"),
        ({"days": math.inf}, "days"), ({"days": 1e30}, "days"), ({"price": 0}, "price"), ({"price": -1.0}, "price"),
        ({"mtbf_gpu_hours": 0}, "mtbf_gpu_hours"), ({"mtbf_gpu_hours": -5}, "mtbf_gpu_hours"),
        ({"mtbf_gpu_hours": 1e30}, "mtbf_gpu_hours"),
    ],
)  # fmt: skip
def test_impossible_numbers_are_refused_by_name(changed: dict, name: str):
    with pytest.raises(UsageError, match=name):
        ForecastRequest(**{"gpus": 64, "days": 30, **changed})


def test_a_suite_without_costs_leaves_them_assumed():
    found = inputs(ForecastRequest(64, 30), measured(suite(killed(), cost=None)))
    assert origins(found, "writing", "asynchronous", "hang-detection") == ["assumed"] * 3
    assert "an unknown number of ranks" in found.figure("crash-detection").source
    assert COST.parts[0].kind == "dcp.save"
