"""Trends: a time that became longer is found and named, and no kind of noise is taken for one.

`docs/how-to/history.md` has the figures of many more nights than are simulated here.
"""

from dataclasses import replace

import pytest

from chaoskit.studies.nights.suite_history import SuiteHistory
from chaoskit.studies.nights.trends import trends
from tests.studies.nights.nights import MACHINE, night, result, timed

#: What noise there is, beside the plain one.
NOISE = {
    "white": {},
    "busy weeks": {"alike": 0.9},
    "busy weeks that the steps do not show": {"alike": 0.6, "seen": False},
    "experiments that have moods": {"own_alike": 0.6},
    "single slow nights": {"slow": 3},
    "heavy tails": {"heavy": True},
}


def found(suites):
    return trends(SuiteHistory.of(suites))


def names(shifts):
    return [(shift.series.name, shift.series.measure) for shift in shifts]


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("nights", [14, 30])
def test_noise_is_no_step(kind, nights):
    pages = [found(timed(nights, experiments=8, seed=seed, **NOISE[kind])) for seed in range(12)]
    assert sum(bool(page.shifts) for page in pages) <= 1


@pytest.mark.parametrize("kind", sorted(NOISE.keys() - {"experiments that have moods"}))
def test_a_step_is_found_in_noise(kind):
    pages = [found(timed(40, experiments=8, seed=seed, step=(2.0, 25), **NOISE[kind])) for seed in range(5)]
    assert sum(("test_0", "recovery") in names(page.slower) for page in pages) >= 4


def test_a_step_has_its_night_its_ratio_and_its_medians():
    page = found(timed(30, step=(1.5, 18)))
    (shift,) = page.slower
    assert names([shift]) == [("test_0", "recovery")]
    assert abs(shift.at - 18) <= 1 and shift.low < 1.5 < shift.high and shift.slower
    assert shift.after > shift.before and shift.chance < 1e-3
    assert page.faster == ()


def test_what_slows_all_is_told_once():
    page = found(timed(40, all_step=(1.5, 20)))
    assert names(page.slower) == [("", "launch")]


def test_a_slower_machine_is_no_slower_job():
    """Everything takes twice as long from one night on, steps included."""
    nights = timed(40)
    slowed = [
        night(at, *(slower(one, 2.0 if at >= 20 else 1.0) for one in suite.results))
        for at, suite in enumerate(nights)
    ]
    assert found(slowed).shifts == ()


def slower(one, factor):
    fields = ("recovery_seconds", "launch_seconds", "seconds", "step_seconds")
    return replace(one, **{name: factor * getattr(one, name) for name in fields})


def test_an_experiment_is_not_slow_since_the_others_became_fast():
    nights = timed(40, common=0.05)
    quick = [
        night(at, *(slower(one, 0.5 if at >= 20 and n else 1.0) for n, one in enumerate(suite.results)))
        for at, suite in enumerate(nights)
    ]
    page = found(quick)
    assert page.slower == ()


def test_the_last_change_counts():
    """Three times as slow for twenty nights, then half as much."""
    nights = [
        night(at, delayed(suite.results[0], 1 if at < 30 else 3 if at < 50 else 1.5), *suite.results[1:])
        for at, suite in enumerate(timed(70, experiments=6))
    ]
    page = found(nights)
    assert [(shift.slower, round(shift.at / 10)) for shift in page.shifts] == [(True, 3), (False, 5)]
    assert page.slower == () and names(page.faster) == [("test_0", "recovery")]


def delayed(one, factor):
    return replace(one, recovery_seconds=factor * one.recovery_seconds)


def test_a_failing_night_has_no_say():
    """An experiment that hangs takes as long as it may."""
    nights = timed(30, experiments=6)
    hung = [
        night(
            at,
            *(
                result("f" if at > 20 else "p", one.name, seconds=99.0 if at > 20 else one.seconds)
                for one in s.results
            ),
        )
        for at, s in enumerate(nights)
    ]
    assert found(hung).shifts == ()


def test_two_machines_are_two_series():
    """One is twice as slow; from one night on, all nights are on it."""
    nights = timed(40, common=0.05)
    boxes = [
        night(
            at, *(slower(one, 2.0 if at >= 20 else 1.0) for one in suite.results),
            machine={**MACHINE, "host": "slow" if at >= 20 else "fast"},
        )
        for at, suite in enumerate(nights)
    ]  # fmt: skip
    page = found(boxes)
    assert page.shifts == () and len({one.machine for one in page.tested}) == 2


def test_too_few_nights_are_told():
    page = found(timed(9, step=(5.0, 5)))
    assert page.shifts == page.tested == () and len(page.short) == 63 and page.needed > 9


def test_short_series_cost_the_long_ones_nothing():
    """Experiments that are new do not make those that are old wait."""
    nights = timed(14, experiments=1, step=(4.0, 7), own=0.02)
    crowd = timed(14, experiments=40)
    both = [
        night(at, *suite.results, *(r for r in crowd[at].results[1:] if at >= 10))
        for at, suite in enumerate(nights)
    ]
    page = found(both)
    assert page.needed <= 14 and len(page.tested) == 3


def test_nothing_measured():
    assert found([]).tested == found([night(0, result("i"), result("s", "test_b"))]).tested == ()
    assert found([night(at, result(recovery_seconds=0.0)) for at in range(20)]).shifts == ()
    same = [night(at, result(recovery_seconds=1.0, launch_seconds=1.0, step_seconds=0.1)) for at in range(30)]
    assert found(same).shifts == ()
