"""The forecast as a whole: its sentence, the interval, the gains, the sensitivity, and the schema of its document."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from chaoskit.errors import UsageError
from chaoskit.schema import SchemaError, conform
from chaoskit.studies.forecast.answer import Forecast, forecast
from chaoskit.studies.forecast.document import ForecastDocument, document
from chaoskit.studies.forecast.inputs import ForecastRequest
from chaoskit.studies.forecast.measured import measured
from chaoskit.studies.forecast.sentences import footing, minutes, money, percent, summary
from tests.studies.forecast.suites import killed, suite


def made(gpus: int = 1024, days: float = 30, *, found=None, trials: int = 200, **stated: float) -> Forecast:
    """A forecast at 50,000 GPU hours between failures; underscores in names of assumptions stand for dashes."""
    names = {name.replace("_", "-"): value for name, value in stated.items()}
    return forecast(ForecastRequest(gpus, days, None, 50_000, "llama3", names), found, trials=trials)


@pytest.fixture(scope="module")
def usual() -> Forecast:
    """1,024 GPUs for 30 days."""
    return made()


def test_a_leader_reads_the_interruptions_their_price_and_what_to_change(usual: Forecast):
    text = summary(usual)
    assert text.startswith("On 1,024 GPUs for 30 days expect 15 interruptions. Today each costs ")
    assert " % of the time trains; USD " in text and "lost work" not in text
    assert "as work that is done again. Saving every 28 min instead of 60 min gains USD " in text


def test_without_a_suite_it_says_that_nothing_was_measured(usual: Forecast):
    assert footing(usual).startswith("NOTHING WAS MEASURED: all of 32 numbers but 1 are assumed.")
    with_suite = footing(made(found=measured(suite(killed()))))
    assert "3 are measured (suite 20261120-010203-00000abcde)" in with_suite and "ASSUMED" in with_suite


def test_the_interruptions_are_those_of_the_rate(usual: Forecast):
    expected = usual.plan.work_seconds / usual.plan.mtbf_seconds
    assert usual.interruptions.low < expected * 1.03 and usual.interruptions.high > expected
    assert usual.interruptions.p5 < expected < usual.interruptions.p95


def test_money_is_wall_time_at_the_price(usual: Forecast):
    wall = usual.days.mean * 24
    lost = (wall - 30 * 24) * 1024 * 3.0
    assert usual.lost_usd == pytest.approx(lost, rel=1e-6)
    assert sum(each.share for each in usual.causes) == pytest.approx(1)
    assert [each.seconds for each in usual.causes] == sorted((each.seconds for each in usual.causes), reverse=True)


def test_the_best_interval_is_that_of_the_formulas_and_its_gain_is_the_first_improvement(usual: Forecast):
    own = usual.intervals
    assert own.best == pytest.approx(own.daly, rel=0.5) and own.young == pytest.approx(own.daly, rel=0.05)
    first = next(each for each in usual.gains if each.name == "best interval")
    assert own.gain is not None and first.seconds == pytest.approx(own.gain.seconds)
    assert 0 < first.low < first.seconds < first.high


def test_who_saves_at_the_best_interval_is_told_so(usual: Forecast):
    best = made(interval=usual.intervals.daly)
    assert best.intervals.best == best.intervals.present and best.intervals.gain is None
    assert "No other checkpoint interval is certain to gain money." in summary(best)


def test_the_improvements_are_the_usual_ones_by_money(usual: Forecast):
    names = [each.name for each in usual.gains]
    assert {"asynchronous saves", "half the detection", "hot spares", "warm restarts", "best interval"} <= {*names}
    assert [each.seconds for each in usual.gains] == sorted((each.seconds for each in usual.gains), reverse=True)
    half = next(each for each in usual.gains if each.name == "half the detection")
    causes = {each.name: each.seconds for each in usual.causes}
    assert half.seconds == pytest.approx((causes["detection"] + causes["silent corruption"]) / 2, rel=0.3)


def test_an_elastic_job_gains_where_there_are_no_spares():
    bare = made(spares=0.0, repair=12 * 3600.0)
    gains = {each.name: each.seconds for each in bare.gains}
    assert bare.causes[0].name == "waiting for nodes"
    assert gains["elastic shrink"] > 0.9 * bare.causes[0].seconds and gains["hot spares"] > 0


def test_a_resume_from_older_checkpoints_costs_intervals():
    behind = killed("a", resumed_from=10, last_valid=30)
    found = made(found=measured(suite(behind)))
    gains = {each.name: each.seconds for each in found.gains}
    # Two intervals of an hour for each of 15 interruptions.
    assert gains["newest checkpoint"] == pytest.approx(15 * 2 * 3600, rel=0.3)


def test_rarer_failures_are_better_and_longer_relaunches_worse(usual: Forecast):
    moved = {each.name: each for each in usual.sensitivity}
    assert moved["time between failures"].half < usual.goodput.mean < moved["time between failures"].double
    assert moved["relaunch"].half > moved["relaunch"].double
    assert [abs(each.double - each.half) for each in usual.sensitivity] == sorted(
        (abs(each.double - each.half) for each in usual.sensitivity), reverse=True
    )


def test_the_chance_of_no_interruption_is_that_of_the_trials():
    few = made(gpus=64, days=10, trials=3000)
    assert few.uninterrupted == pytest.approx(math.exp(-few.plan.days * 24 * 64 / 50_000), rel=0.01)


@pytest.mark.parametrize("shape", [0.5, 2.0])
def test_another_shape_keeps_the_number_of_failures(shape: float):
    plain, other = (made(gpus=2048, days=10, trials=600, shape=each) for each in (1.0, shape))
    # Failures of the wall time beyond the training time come on top.
    assert other.interruptions.mean == pytest.approx(plain.interruptions.mean, rel=0.12)
    assert other.uninterrupted == pytest.approx(plain.uninterrupted, rel=0.1)


def test_tiny_jobs_have_a_forecast():
    tiny = made(gpus=1, days=1)
    assert summary(tiny).startswith("On 1 GPU for 1 day expect no interruption. Today 99.")
    assert tiny.uninterrupted == pytest.approx(math.exp(-24 / 50_000), rel=1e-3)


def test_a_long_job_is_compared_on_a_part_of_it_and_scaled():
    long = made(gpus=16_384, days=54, interval=240.0, trials=60)
    relaunch = next(each.seconds for each in long.causes if each.name == "relaunch")
    warm = next(each for each in long.gains if each.name == "warm restarts")
    assert warm.seconds == pytest.approx(relaunch * 0.8, rel=0.15)


def test_a_job_that_never_gets_anywhere_is_refused_with_the_interval_that_would_do():
    with pytest.raises(UsageError, match=r"every 30 min on average.* would hardly ever be done\. Give --interval "):
        made(gpus=100_000, days=90)


def test_jobs_that_may_not_be_done_say_so():
    slow = made(gpus=2048, days=3, spares=0.0, repair=30 * 24 * 3600.0, trials=50)
    assert 0 < slow.finished < 1 and slow.goodput.p5 == 0


def told(found: Forecast) -> dict:
    """The document as a reader of the file sees it."""
    return json.loads(json.dumps(document(found), allow_nan=False))


def test_the_document_conforms_to_its_schema(usual: Forecast):
    plain = told(usual)
    assert conform(ForecastDocument, plain)["sentence"] == summary(usual)
    assert plain["schema"] == 1 and plain["suite"] is None
    assert [each["name"] for each in plain["figures"]] == [each.name for each in usual.inputs.figures]
    assert len(plain["first_trial"]) == len(usual.month)
    del plain["interval"]["daly"]
    with pytest.raises(SchemaError, match="interval lacks daly"):
        conform(ForecastDocument, plain)


def test_documents_of_odd_jobs_conform_too():
    odd = [
        made(gpus=1, days=0.01, keep=1.0),
        made(gpus=2048, days=3, spares=0.0, repair=30 * 24 * 3600.0, trials=50),
        made(found=measured(suite(killed(), status="interrupted"))),
    ]
    for each in odd:
        plain = told(each)
        conform(ForecastDocument, plain)
        assert (plain["suite"] is None) == (each.measured is None)


def test_the_same_seed_gives_the_same_document(usual: Forecast):
    assert told(made()) == told(usual)
    assert told(replace(usual, seed=1))["seed"] == 1


def test_numbers_for_people():
    assert [percent(each) for each in (0.0, 0.0004, 0.961, 0.99912, 1.0)] == [
        "0.0 %", "under 0.1 %", "96.1 %", "99.91 %", "100.0 %",
    ]  # fmt: skip
    assert [money(each) for each in (0, 9.4, 876, 88_432, -31_200, 1_249_000)] == [
        "USD 0", "USD 9", "USD 880", "USD 88,000", "USD -31,000", "USD 1,200,000",
    ]  # fmt: skip
    assert money(88_432, 3) == "USD 88,400"
    assert [minutes(each) for each in (45, 1140, 3600, 5 * 3600)] == ["45 s", "19 min", "60 min", "5 h"]
