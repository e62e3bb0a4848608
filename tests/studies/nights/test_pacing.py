"""Times of two suites: silent where the machine alone differs, heard where launches take longer."""

import random

import pytest

from chaoskit.studies.nights.pacing import MARGIN, times
from tests.two_suites import result

EXPERIMENTS = 12


def simulated(draw, *, machine=1.0, follows=1.0, launch=1.0, noise=0.15, experiments=EXPERIMENTS):
    """Pairs of results as a shared machine makes them: each time has noise of its own and sometimes hangs; the
    machine of the second suite is so much slower, and launches follow that so far (0: not at all); its launches take
    so long."""
    pairs = []
    for number in range(experiments):

        def noisy():
            return draw.lognormvariate(0, noise) * (5 if draw.random() < 0.03 else 1)

        usual = draw.uniform(0.5, 3)
        old, new = (
            result(
                f"test_{number}",
                launch_seconds=usual * pace**follows * slow * noisy(),
                recovery_seconds=1.5 * usual * pace**follows * noisy(),
                step_seconds=0.02 * pace * draw.lognormvariate(0, noise / 2),
            )
            for pace, slow in ((1.0, 1.0), (machine, launch))
        )
        pairs.append((old, new))
    return pairs


@pytest.mark.parametrize("machine", [1.0, 1.3, 0.6, 3.0])
@pytest.mark.parametrize("follows", [0.0, 0.5, 1.0])
def test_equal_suites_are_called_equal_whatever_the_machine_does(machine, follows):
    draw = random.Random(11)
    found = [
        one for _ in range(150) for one in times(simulated(draw, machine=machine, follows=follows))
        if one.judged in ("slower", "faster")
    ]  # fmt: skip
    assert len(found) <= 4  # of 150; 1.5 would be the rate that is stated


@pytest.mark.parametrize("machine", [1.0, 1.3, 0.8])
def test_a_slower_launch_is_heard_over_noise_and_the_machine(machine):
    draw = random.Random(12)
    judged = [times(simulated(draw, machine=machine, launch=1.9, experiments=24)) for _ in range(60)]
    assert sum(told[0].judged == "slower" for told in judged) >= 54
    assert sum(told[1].judged != "noise" for told in judged) <= 2


def test_a_faster_launch_is_heard_too():
    draw = random.Random(13)
    assert times(simulated(draw, launch=0.5, experiments=24))[0].judged == "faster"


def test_a_little_is_no_difference_however_sure():
    pairs = [(result(f"test_{i}"), result(f"test_{i}", launch_seconds=1 + 0.9 * MARGIN)) for i in range(30)]
    launch = times(pairs)[0]
    assert launch.judged == "noise" and launch.ratio.low == pytest.approx(1.09)


def test_slower_steps_are_the_pace_and_make_nothing_faster():
    pairs = [(result(f"test_{i}"), result(f"test_{i}", step_seconds=0.03)) for i in range(30)]
    launch, recovery, step = times(pairs)
    assert launch.judged == recovery.judged == "noise"
    assert launch.ratio.value == pytest.approx(1) and launch.paced.value == pytest.approx(1 / 3)
    assert step.judged == "pace" and step.ratio.value == pytest.approx(3) and step.paced is None


def test_eight_experiments_are_too_few_and_nine_are_enough():
    def twice(count):
        return times([(result(f"test_{i}"), result(f"test_{i}", launch_seconds=2.0 + i)) for i in range(count)])[0]

    assert twice(8).judged == "too few" and twice(8).chance is None and twice(8).ratio.value > 2
    assert twice(9).judged == "slower" and twice(9).chance < 0.005


@pytest.mark.parametrize(
    "other",
    [
        {"launched": ("cold: it was asked for",)},
        {"launched": ("warm", "cold")},
        {"launch_seconds": None},
        {"step_seconds": None},
        {"launch_seconds": 0.0},
        {"launch_seconds": float("inf")},
    ],
)
def test_what_cannot_be_paired_is_left_out(other):
    launch = times([(result("test_a"), result("test_a", **other)), (result("test_b"), result("test_b"))])[0]
    assert launch.pairs == 1


def test_an_experiment_with_another_verdict_is_left_out():
    assert [one.pairs for one in times([(result("test_a"), result("test_a", "fail", "hang"))])] == [0, 0, 0]


def test_of_a_cold_launch_the_reason_does_not_matter():
    pair = result("test_a", launched=("cold: one",)), result("test_a", launched=("cold: another",))
    assert times([pair])[0].pairs == 1
