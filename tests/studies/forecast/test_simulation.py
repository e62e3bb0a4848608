"""The simulation, against every closed form that there is, and against what each cause of loss must be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.errors import UsageError
from chaoskit.studies.forecast.inputs import ForecastRequest, inputs
from chaoskit.studies.forecast.intervals import daly
from chaoskit.studies.forecast.plan import HOUR, Checkpointing, Cluster, Plan, RecoveryCosts
from chaoskit.studies.forecast.presets import (
    LLAMA_DAYS,
    LLAMA_EFFECTIVE,
    LLAMA_GPUS,
    LLAMA_INTERRUPTIONS,
    FailureClass,
    preset,
)
from chaoskit.studies.forecast.simulation import CAUSES, SimulatedJobs, simulate
from tests.studies.forecast.plans import plan


def lost(outcome: SimulatedJobs, cause: str) -> np.ndarray:
    """The seconds lost to one cause, by trial."""
    return outcome.lost_seconds[CAUSES.index(cause)]


def agrees(found: np.ndarray, expected: float) -> bool:
    """Whether the mean of the trials is the expected one, within four of its standard errors."""
    return abs(found.mean() - expected) < 4 * found.std() / math.sqrt(len(found))


def daly_wall(one: Plan) -> float:
    """The expected wall time of a plan whose intervals divide its work, by Daly's closed form (2006)."""
    own, mtbf = one.checkpointing, one.mtbf_seconds
    whole = one.work_seconds / own.interval_seconds
    restart = math.exp(one.restart_seconds / mtbf) * mtbf
    with_save = math.expm1((own.interval_seconds + own.blocking_seconds) / mtbf)
    return restart * ((whole - 1) * with_save + math.expm1(own.interval_seconds / mtbf))


@pytest.mark.parametrize(
    ("mtbf", "interval", "blocking", "restart"),
    [(50.0, HOUR, 60.0, 600.0), (2.0, HOUR, 300.0, 600.0), (1.0, HOUR / 4, 30.0, 1800.0), (5.0, 8 * HOUR, 0.0, 0.0)],
)
def test_the_wall_time_is_that_of_dalys_closed_form(mtbf: float, interval: float, blocking: float, restart: float):
    one = plan(mtbf_hours=mtbf, interval=interval, blocking=blocking, restart=restart)
    outcome = simulate(one, trials=3000, seed=1)
    assert agrees(outcome.wall_seconds, daly_wall(one))
    # The plan's own estimate takes the last save for granted, which the end of the job makes needless.
    assert one.share == pytest.approx(one.work_seconds / outcome.wall_seconds.mean(), rel=0.03)


def test_the_chance_of_no_interruption_is_exponential_in_the_undisturbed_time():
    one = plan(days=1, mtbf_hours=24.0)
    undisturbed = one.work_seconds + 23 * 60
    outcome = simulate(one, trials=8000)
    chance = math.exp(-undisturbed / one.mtbf_seconds)
    assert agrees((outcome.interruptions == 0).astype(float), chance)


def test_a_thousand_nodes_of_one_in_a_thousand_a_day_are_left_alone_on_a_day_in_37_percent():
    classes = preset("node-day", gpus=8000).classes
    one = Plan(1.0, Cluster(8000, spares=1000), Checkpointing(1e6, 0.0), RecoveryCosts(0, 0, 0, 0), classes)
    assert pytest.approx(0.37, abs=0.005) == 0.999**1000
    outcome = simulate(one, trials=8000)
    assert agrees((outcome.interruptions == 0).astype(float), 0.999**1000)


def test_failures_come_at_their_rate_for_as_long_as_the_job_takes():
    one = plan(mtbf_hours=1.0)
    outcome = simulate(one, trials=2000)
    # Wald: the mean count is the rate times the mean time, up to the failure that never came.
    assert agrees(outcome.interruptions - outcome.wall_seconds / one.mtbf_seconds, 0.0)


def test_llamas_interruptions_and_its_effective_training_time():
    """By all defaults but the interval, 419 lies between the 5th and the 95th percentile, and over 90 % trains."""
    known = preset("llama3", gpus=LLAMA_GPUS)
    assert known.mtbf_gpu_hours == pytest.approx(LLAMA_GPUS * LLAMA_DAYS * 24 / LLAMA_INTERRUPTIONS)
    assert sum(LLAMA_GPUS * LLAMA_DAYS * 24 / each.mtbf_hours / (8 if each.unit == "node" else 1)
               for each in known.classes) == pytest.approx(LLAMA_INTERRUPTIONS)  # fmt: skip
    one = inputs(ForecastRequest(LLAMA_GPUS, LLAMA_DAYS)).plan
    best = daly(one.checkpointing.blocking_seconds, one.mtbf_seconds)
    one = replace(one, checkpointing=replace(one.checkpointing, interval_seconds=best))
    # 54 days on the clock, not of training.
    one = replace(one, days=LLAMA_DAYS * one.share)
    outcome = simulate(one, trials=400)
    low, high = np.percentile(outcome.interruptions, [5, 95])
    assert low < LLAMA_INTERRUPTIONS < high and high - low < 120
    assert LLAMA_EFFECTIVE < outcome.goodput.mean() < 0.98


@st.composite
def plans(draw: Any) -> Plan:
    """Any plan that can be simulated: each symptom, each way to save, each way to replace a node."""
    gpus = draw(st.integers(8, 400))
    cluster = Cluster(
        gpus, spares=draw(st.integers(0, -(-gpus // 8))), spare_seconds=draw(st.floats(0, 600)),
        repair_hours=draw(st.floats(0.1, 5)), elastic=draw(st.booleans()), nodes_per_rack=1,
    )  # fmt: skip
    saves = Checkpointing(
        draw(st.floats(60, 7200)), draw(st.floats(0, 60)), draw(st.floats(0, 600)),
        draw(st.none() | st.floats(10, 600)), draw(st.floats(0, 1)),
    )  # fmt: skip
    recovery = RecoveryCosts(
        *(draw(st.floats(0, 600)) for _ in range(4)), silent_hours=draw(st.floats(0, 3)),
        failed_share=draw(st.floats(0, 1)), failed_seconds=draw(st.floats(0, 3600)),
        extra_intervals=draw(st.sampled_from([0.0, 0.5])), notice_seconds=draw(st.floats(0, 200)),
    )  # fmt: skip
    classes = [
        FailureClass(
            symptom, draw(st.sampled_from(["gpu", "node", "rack"])), draw(st.floats(50, 1000)) * gpus, symptom,
            draw(st.integers(0, 1)), draw(st.sampled_from([0.7, 1.0, 2.0])),
        )
        for symptom in ("crash", "hang", "silent", "notice")
    ]  # fmt: skip
    return Plan(draw(st.floats(0.01, 3)), cluster, saves, recovery, tuple(classes))


@settings(max_examples=60, deadline=None)
@given(one=plans(), seed=st.integers(0, 1000))
def test_every_second_is_training_or_lost_to_one_cause(one: Plan, seed: int):
    outcome = simulate(one, trials=20, seed=seed, trace=True)
    done = np.isfinite(outcome.wall_seconds)
    spent = one.work_seconds + outcome.lost_seconds.sum(axis=0)
    assert np.allclose(spent[done], outcome.wall_seconds[done], rtol=1e-9, atol=1e-4)
    assert (outcome.lost_seconds >= -1e-6).all()
    assert ((outcome.goodput >= 0) & (outcome.goodput <= 1 + 1e-12)).all()
    assert len(outcome.first) == outcome.interruptions[0]


def test_the_same_seed_strikes_at_the_same_times_whatever_the_checkpoints_are():
    one = plan(mtbf_hours=10.0)
    other = replace(one, checkpointing=replace(one.checkpointing, interval_seconds=500.0))
    first, second = (simulate(each, trials=3, seed=5, trace=True).first for each in (one, other))
    shared = min(len(first), len(second))
    assert shared > 5 and [each.at for each in first[:shared]] == [each.at for each in second[:shared]]
    again = simulate(one, trials=3, seed=5)
    assert (again.wall_seconds == simulate(one, trials=3, seed=5).wall_seconds).all()
    assert (again.wall_seconds != simulate(one, trials=3, seed=6).wall_seconds).any()


def test_more_trials_than_fit_a_block_are_other_trials():
    outcome = simulate(plan(days=0.5), trials=2500)
    assert outcome.trials == 2500 and outcome.lost_seconds.shape == (len(CAUSES), 2500)
    assert len(set(outcome.wall_seconds[outcome.interruptions > 0])) > 2000


def test_a_failure_loses_half_an_interval_on_average_and_never_more_than_one():
    one = plan(days=20, mtbf_hours=100.0, blocking=0.0)
    outcome = simulate(one, trials=1000)
    each = lost(outcome, "lost work") / np.maximum(outcome.interruptions, 1)
    assert each[outcome.interruptions > 0].mean() == pytest.approx(HOUR / 2, rel=0.1)
    assert (lost(outcome, "lost work") <= outcome.interruptions * HOUR).all()


def test_a_save_in_the_background_blocks_less_and_loses_what_was_not_yet_written():
    block = plan(days=20, mtbf_hours=50.0, blocking=300.0)
    behind = plan(days=20, mtbf_hours=50.0, blocking=10.0, saves={"background_seconds": 290.0})
    one, other = (simulate(each, trials=600) for each in (block, behind))
    assert lost(other, "saves").mean() < lost(one, "saves").mean() / 10
    more = lost(other, "lost work") / other.interruptions - lost(one, "lost work") / one.interruptions
    # A tick of the clock that falls into the write loses the interval before.
    assert more.mean() == pytest.approx(290, abs=150)


def test_a_copy_in_memory_bounds_the_loss_but_not_that_of_a_rack():
    tier = {"memory_interval_seconds": 100.0, "memory_seconds": 0.5}
    one = simulate(plan(days=20, saves=tier), trials=200)
    assert (lost(one, "lost work") <= one.interruptions * 100 + 1e-6).all()
    rack = plan(days=20, saves=tier, gpus=32, failures={"unit": "rack", "mtbf_hours": 5.0})
    other = simulate(rack, trials=200)
    assert lost(other, "lost work").mean() > 10 * lost(one, "lost work").mean()
    assert lost(one, "saves").mean() > one.work_seconds * 0.004


def test_silent_corruption_costs_the_time_until_it_is_found():
    one = plan(mtbf_hours=40.0, failures={"symptom": "silent"}, recovery={"silent_hours": 3.0})
    outcome = simulate(one, trials=3000)
    struck = outcome.interruptions > 0
    assert lost(outcome, "detection").max() == 0
    own = lost(outcome, "silent corruption") + lost(outcome, "repeated recoveries")
    assert (own[struck] / outcome.interruptions[struck]).mean() == pytest.approx(3 * HOUR, rel=0.15)


def test_a_hang_waits_for_its_timeout_and_a_crash_does_not():
    seconds = {"crash_seconds": 5.0, "hang_seconds": 600.0}
    one = simulate(plan(mtbf_hours=50.0, days=20, recovery=seconds, failures={"symptom": "hang"}), trials=50)
    other = simulate(plan(mtbf_hours=50.0, days=20, recovery=seconds), trials=50)
    assert lost(one, "detection").sum() / one.interruptions.sum() == pytest.approx(600, rel=0.05)
    assert lost(other, "detection").sum() / other.interruptions.sum() == pytest.approx(5, rel=0.05)


def test_a_notice_that_is_long_enough_to_save_loses_no_work():
    told = plan(failures={"symptom": "notice"}, recovery={"notice_seconds": 120.0}, blocking=60.0)
    late = plan(failures={"symptom": "notice"}, recovery={"notice_seconds": 30.0}, blocking=60.0)
    assert lost(simulate(told, trials=50), "lost work").sum() == 0
    assert lost(simulate(late, trials=50), "lost work").sum() > 0


def test_a_share_of_recoveries_fails_and_costs_more():
    one = simulate(plan(days=20, recovery={"failed_share": 0.25, "failed_seconds": 1000.0}), trials=300)
    share = lost(one, "failed recoveries").sum() / 1000 / one.interruptions.sum()
    assert share == pytest.approx(0.25, rel=0.15)


def test_without_a_spare_each_loss_waits_for_its_repair_and_with_enough_none_does():
    losing = {"nodes_lost": 1}
    bare = plan(mtbf_hours=100.0, days=20, failures=losing, cluster={"repair_hours": 2.0})
    one = simulate(bare, trials=50)
    # The repair begins with the failure, and so does the detection of 600 s.
    single = lost(one, "waiting for nodes").sum() / one.interruptions.sum()
    assert single == pytest.approx(2 * HOUR - 600, rel=0.1)
    spared = plan(mtbf_hours=100.0, days=20, failures=losing, cluster={"repair_hours": 2.0, "spares": 8})
    assert lost(simulate(spared, trials=50), "waiting for nodes").max() == 0
    joined = plan(mtbf_hours=100.0, days=20, failures=losing,
                  cluster={"repair_hours": 2.0, "spares": 8, "spare_seconds": 90.0})  # fmt: skip
    other = simulate(joined, trials=50)
    assert lost(other, "waiting for nodes").sum() / other.interruptions.sum() == pytest.approx(90, rel=0.05)


def test_one_spare_serves_one_loss_at_a_time():
    # Failures each hour, repairs of three: the second one waits for the spare that the first one took.
    one = plan(gpus=80, mtbf_hours=1.0, days=0.5, failures={"nodes_lost": 1}, restart=0.0,
               cluster={"repair_hours": 3.0, "spares": 1})  # fmt: skip
    outcome = simulate(one, trials=200, trace=True)
    waits = [(each.at, each.costs[CAUSES.index("waiting for nodes")]) for each in outcome.first]
    (first, none), (second, wait) = waits[:2]
    assert none == 0
    assert wait == pytest.approx(max(0.0, first + 3 * HOUR - second), abs=1e-6)


def test_an_elastic_job_loses_the_share_of_the_missing_nodes_only():
    own = {"repair_hours": 2.0}
    rigid = plan(gpus=80, mtbf_hours=50.0, days=20, failures={"nodes_lost": 1}, restart=0.0, cluster=own)
    elastic = replace(rigid, cluster=replace(rigid.cluster, elastic=True))
    one, other = (simulate(each, trials=100) for each in (rigid, elastic))
    assert lost(other, "waiting for nodes").mean() == pytest.approx(lost(one, "waiting for nodes").mean() / 10, rel=0.2)


def test_a_rack_takes_all_of_its_nodes_from_the_spares():
    rack = {"unit": "rack", "mtbf_hours": 20.0 * 3, "nodes_lost": 4}
    own = {"nodes_per_rack": 4, "repair_hours": 2.0}
    enough = plan(gpus=96, days=10, failures=rack, restart=0.0, cluster={**own, "spares": 12})
    few = plan(gpus=96, days=10, failures=rack, restart=0.0, cluster={**own, "spares": 3})
    one, other = (simulate(each, trials=100) for each in (enough, few))
    assert lost(one, "waiting for nodes").mean() < 0.2 * lost(other, "waiting for nodes").mean()
    single = lost(other, "waiting for nodes").sum() / (other.interruptions.sum())
    assert single == pytest.approx(2 * HOUR, rel=0.15)


def test_the_best_interval_of_the_simulation_is_near_that_of_the_formula():
    one = plan(days=20, mtbf_hours=5.0, blocking=60.0)
    best = daly(60.0, one.mtbf_seconds)
    grid = [best * factor for factor in (0.25, 0.5, 1.0, 2.0, 4.0)]
    plans = {each: replace(one, checkpointing=Checkpointing(each, 60.0)) for each in grid}
    shares = {each: simulate(other, trials=400).goodput.mean() for each, other in plans.items()}
    assert max(shares, key=lambda each: shares[each]) == best


def test_a_job_that_hardly_fails_is_done_after_its_work_and_saves():
    outcome = simulate(plan(gpus=1, days=1, mtbf_hours=1e9), trials=5)
    assert (outcome.wall_seconds == 24 * HOUR + 23 * 60).all() and outcome.finished == 1.0


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"mtbf_hours": 0.01}, "hardly ever be done"),
        ({"mtbf_hours": 1e-3, "restart": 0.0, "interval": 1.0, "blocking": 0.0, "days": 300}, "failures would have"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_the_reason(changed: dict[str, float], sentence: str):
    with pytest.raises(UsageError, match=sentence):
        simulate(plan(**changed), trials=1000)


def test_a_cluster_that_repairs_too_slowly_is_refused_unless_the_job_is_elastic():
    own = {"repair_hours": 100.0, "spares": 2}
    slow = plan(mtbf_hours=4.0, failures={"nodes_lost": 1}, cluster=own)
    assert (slow.losses, slow.lost_in_repair) == (pytest.approx(30), pytest.approx(25))
    with pytest.raises(UsageError, match=r"while one lost node is repaired \(4.17 days\), 25 more are lost"):
        simulate(slow, trials=5)
    elastic = plan(mtbf_hours=4.0, failures={"nodes_lost": 1}, cluster={**own, "elastic": True})
    assert simulate(elastic, trials=5).trials == 5
    enough = plan(mtbf_hours=4.0, failures={"nodes_lost": 1}, cluster={**own, "spares": 8})
    assert simulate(enough, trials=5).trials == 5


def test_more_spares_than_nodes_are_refused():
    with pytest.raises(UsageError, match="spares=9 are more than the 8 nodes"):
        plan(cluster={"spares": 9})
    with pytest.raises(UsageError, match="takes 20 nodes, and the job has 8"):
        plan(failures={"nodes_lost": 20})
