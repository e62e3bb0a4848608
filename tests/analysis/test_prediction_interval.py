"""The spread of controls: what it is, how often it raises a false alarm, and what it catches."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.analysis.stats.prediction_interval import POWER, Spread
from chaoskit.analysis.stats.students_t import quantile
from chaoskit.errors import UsageError

RUNS = 2000


def trace(draw, steps=40, sigma=0.02):
    """The losses of one run: a curve that falls, and noise that no other run has."""
    return [3.0 / math.sqrt(step) * math.exp(draw.gauss(0, sigma)) for step in range(1, steps + 1)]


def wandering(draw, steps=40, sigma=0.02):
    """The same with noise that adds up, as where one run leaves another: its windows depend on each other."""
    off, losses = 0.0, []
    for step in range(1, steps + 1):
        off += draw.gauss(0, sigma)
        losses.append(3.0 / math.sqrt(step) * math.exp(off))
    return losses


def test_the_windows_double_and_the_last_is_open():
    flat = [1.0, 1.1, 0.9]

    def spans(steps):
        done = Spread.of([[level] * steps for level in flat]).test([1.0] * steps)
        return [(window.first, window.last) for window in done.windows]

    assert spans(1) == [(1, 1)]
    assert spans(2) == [(1, 2)]
    assert spans(3) == [(1, 2), (3, 3)]
    assert spans(20) == [(1, 2), (3, 4), (5, 8), (9, 16), (17, 20)]


def test_the_statistic_by_hand():
    controls = [[math.exp(level)] * 2 for level in (0.1, 0.2, 0.3)]
    done = Spread.of(controls).test([math.exp(0.5)] * 2, alpha=0.05)
    (window,) = done.windows
    assert window.shift == pytest.approx(0.3)
    assert window.t == pytest.approx(0.3 / (0.1 * math.sqrt(4 / 3)))
    assert window.critical == pytest.approx(quantile(0.975, 2))
    assert window.power_shift == pytest.approx((window.critical + quantile(POWER, 2)) * 0.1 * math.sqrt(4 / 3))
    assert (done.within, done.relative, done.alpha, done.controls) == (True, True, 0.05, 3)


def test_losses_that_are_not_positive_are_subtracted():
    done = Spread.of([[-1.0, 0.0], [-2.0, 0.0], [-3.0, 0.0]]).test([-1.0, 4.0])
    assert not done.relative
    assert done.windows[0].shift == pytest.approx(2.5)


@pytest.mark.parametrize("level", [2.5, 0.0, -3.0, 1e-310])
def test_equal_controls_spread_by_nothing_but_do_not_divide_by_it(level):
    spread = Spread.of([[level] * 6] * 3)
    assert spread.test([level] * 6).worst.t == 0
    off = spread.test([level] * 5 + [level + 0.001])
    assert [window.outside for window in off.windows] == [False, False, True]
    # Rounding in the last bit is nothing.
    assert spread.test([math.nextafter(level, 9.0)] * 6).within or level == 1e-310


@pytest.mark.parametrize("tell", [trace, wandering])
@pytest.mark.parametrize("count", [3, pytest.param(5, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_false_alarms_are_as_rare_as_stated(tell, count, alpha):
    draw = random.Random(f"{tell.__name__} {count}")
    alarms = 0
    for _ in range(RUNS):
        spread = Spread.of([tell(draw, 16) for _ in range(count)])
        alarms += not spread.test(tell(draw, 16), alpha=alpha).within
    error = math.sqrt(alpha * (1 - alpha) / RUNS)
    assert alarms / RUNS <= alpha + 3 * error
    # Nor is it deaf: independent windows give nearly all of alpha.
    if tell is trace:
        assert alarms / RUNS >= alpha - 3 * error - alpha**2


@pytest.mark.parametrize("tell", [trace, wandering])
@pytest.mark.parametrize("count", [3, pytest.param(5, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)])
def test_a_shift_of_the_stated_size_is_caught(tell, count):
    draw = random.Random(count)
    caught, total = 0, RUNS // 2
    for _ in range(total):
        spread = Spread.of([tell(draw) for _ in range(count)])
        run = tell(draw)
        # In the window that looks sharpest, which is picked after the fact.
        sharpest = spread.test(run).sharpest
        moved = [
            loss * math.exp(sharpest.power_shift) if sharpest.first <= step <= sharpest.last else loss
            for step, loss in enumerate(run, start=1)
        ]
        caught += not spread.test(moved).within
    assert caught / total >= POWER - 3 * math.sqrt(POWER * (1 - POWER) / total)


def test_a_shift_a_quarter_as_large_is_mostly_missed():
    draw = random.Random(1)
    missed = 0
    for _ in range(200):
        spread = Spread.of([trace(draw) for _ in range(5)])
        run = trace(draw)
        factor = math.exp(spread.test(run).sharpest.power_shift / 4)
        missed += spread.test([loss * factor for loss in run]).within
    assert missed > 150


def test_a_jump_at_the_resume_and_a_drift_show_in_their_windows():
    draw = random.Random(7)
    spread = Spread.of([trace(draw) for _ in range(8)])
    jump = [loss * (1.6 if step <= 2 else 1.0) for step, loss in enumerate(trace(draw), start=1)]
    assert (spread.test(jump).worst.first, spread.test(jump).within) == (1, False)
    drift = [loss * (1 + 0.005 * step) for step, loss in enumerate(trace(draw), start=1)]
    assert (spread.test(drift).worst.first >= 17, spread.test(drift).within) == (True, False)


LOSSES = st.lists(st.lists(st.floats(1e-3, 1e3), min_size=5, max_size=5), min_size=4, max_size=7)


@given(LOSSES, st.floats(1e-2, 1e2))
def test_the_unit_of_the_loss_does_not_matter(losses, factor):
    *controls, run = losses
    one = Spread.of(controls).test(run)
    other = Spread.of([[loss * factor for loss in each] for each in controls]).test([x * factor for x in run])
    for a, b in zip(one.windows, other.windows, strict=True):
        # Where the controls are equal there is only rounding, which the floor keeps below one.
        assert a.t == pytest.approx(b.t, rel=1e-6, abs=0.1)


@given(LOSSES)
def test_the_order_of_the_controls_does_not_matter(losses):
    *controls, run = losses
    one, other = Spread.of(controls).test(run), Spread.of(controls[::-1]).test(run)
    assert [w.outside for w in one.windows] == [w.outside for w in other.windows]


@pytest.mark.parametrize(
    ("controls", "losses", "alpha", "named"),
    [
        ([[1.0]] * 2, [1.0], 0.01, "at least 3"),
        ([[1.0], [1.0], [1.0, 2.0]], [1.0], 0.01, "same steps"),
        ([[]] * 3, [], 0.01, "same steps"),
        ([[1.0]] * 3, [1.0, 2.0], 0.01, "same steps"),
        ([[math.nan]] * 3, [1.0], 0.01, "finite"),
        ([[1.0]] * 3, [math.inf], 0.01, "losses must be finite"),
        ([[1.0]] * 3, [1.0], 0.0, "alpha"),
        ([[1.0]] * 3, [1.0], 1.0, "alpha"),
    ],
)
def test_what_cannot_be_compared_is_named(controls, losses, alpha, named):
    with pytest.raises(UsageError, match=named):
        Spread.of(controls).test(losses, alpha=alpha)
