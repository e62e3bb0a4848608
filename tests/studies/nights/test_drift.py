"""Two references: the first place at which they part, how far their losses are apart, and what is no evidence."""

import math

import pytest

from chaoskit.errors import UsageError
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.studies.nights.drift import drift
from tests.two_suites import SETTINGS, baseline, drifted

NAMES = ("test_a",)


def test_equal_ones_do_not_part():
    one = drift(NAMES, baseline(), baseline())
    assert not one.apart and not one.void and one.first is None and one.curve == () and one.course == ""


def test_other_versions_that_compute_the_same_do_not_part():
    one = drift(NAMES, baseline(), baseline(settings={"torch": "2.14.1"}))
    assert one.old.digest != one.new.digest and not one.apart


def test_the_first_loss_that_differs_and_by_how_many_ulps():
    one = drift(NAMES, baseline(), drifted(baseline(), since=5, by=lambda step: 3, ranks=(1,)))
    assert (one.step, one.rank, list(one.values)) == (5, 1, ["loss"])
    assert (one.first.step, one.first.rank, one.first.backward) == (5, 1, 1)
    assert one.first.gap.ulps == 3 and one.first.gap.precision == "float32"
    assert one.curve[3] == (4, 0.0) and one.curve[4] == (5, one.first.gap.relative)


def test_a_loss_of_float64_is_counted_in_float64():
    near = math.nextafter(0.1, 1)
    one = drift(NAMES, baseline(losses={(0, 3): (0.1).hex()}), baseline(losses={(0, 3): near.hex()}))
    assert one.first.gap.precision == "float64" and one.first.gap.ulps == 1


def test_the_second_backward_of_a_step():
    a, b = "0x1.0p+0 0x1.8p+0", "0x1.0p+0 0x1.4p+0"
    one = drift(NAMES, baseline(losses={(0, 3): a}), baseline(losses={(0, 3): b}))
    assert one.first.backward == 2 and one.first.gap.relative == pytest.approx(1 / 6)
    assert one.values == {"loss": (a, b)}


def test_the_component_that_parts_before_the_loss():
    new = drifted(baseline(models={(1, 4): "f" * 32}), since=6)
    one = drift(NAMES, baseline(), new)
    assert (one.step, one.rank) == (4, 1) and one.values == {"model": (f"{4:032x}", "f" * 32)}
    assert one.first.step == 6


def test_a_component_alone_is_told_although_no_loss_differs():
    one = drift(NAMES, baseline(), baseline(models={(0, 4): "f" * 32}))
    assert one.apart and one.first is None and one.largest is None


def test_a_component_that_one_does_not_have():
    new = baseline()
    for columns in new.ranks.values():
        columns["ema"] = ["e" * 32] * new.steps
    one = drift(NAMES, baseline(), Baseline(new.job, new.steps, True, new.ranks, settings=SETTINGS))
    assert (one.step, one.rank) == (1, 0) and one.values == {"ema": ("absent", "e" * 32)}


def test_what_means_nothing_in_one_of_them_is_left_out():
    new = baseline(idle=("rng.python",))
    for columns in new.ranks.values():
        columns["rng.python"] = ["f" * 32] * new.steps
    assert not drift(NAMES, baseline(), new).apart


@pytest.mark.parametrize(
    ("by", "course"),
    [(lambda step: 4**step, "grows"), (lambda step: 4 ** (12 - step) * 3, "shrinks"), (lambda step: 100, "stays")],
)
def test_whether_the_gaps_grow(by, course):
    one = drift(NAMES, baseline(), drifted(baseline(), since=2, by=by))
    assert one.course == course
    worst = max(one.curve, key=lambda each: each[1])
    assert (one.largest.step, one.largest.gap.relative) == worst


def test_of_few_steps_nobody_says_whether_they_grow():
    assert drift(NAMES, baseline(), drifted(baseline(), since=9)).course == ""


def test_a_loss_that_is_no_number():
    one = drift(NAMES, baseline(), baseline(losses={(0, 7): "nan"}))
    assert one.first.gap.ulps is None and one.largest.gap.relative == math.inf and one.curve[6] == (7, math.inf)
    assert not drift(NAMES, baseline(losses={(0, 7): "nan"}), baseline(losses={(0, 7): "nan"})).apart


@pytest.mark.parametrize("other", ["", "0x1.0p+0 0x1.0p+0", "(2, 3)"])
def test_a_step_with_other_losses_parts_and_has_no_gap(other):
    one = drift(NAMES, baseline(), baseline(losses={(0, 7): other}))
    assert (one.step, one.first) == (7, None) and one.values["loss"][1] == (other or "absent")


def test_one_that_goes_on_longer():
    one = drift(NAMES, baseline(), baseline(steps=15))
    assert (one.step, one.rank, one.values) == (13, 0, {"steps": ("ended", "goes on")}) and one.first is None
    assert drift(NAMES, baseline(steps=15), drifted(baseline(), since=3)).step == 3


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (baseline(deterministic=False), baseline(), "the old one is not deterministic"),
        (baseline(), baseline(deterministic=False), "the new one is not deterministic"),
        (baseline(deterministic=False), baseline(deterministic=False), "both are not deterministic"),
        (baseline(), baseline(ranks=3), "old has 2 ranks, new has 3"),
        (
            Baseline(("a",), 1, True, {0: {"model": ["f"]}}),
            Baseline(("a",), 1, True, {0: {"model": ["e"]}}, settings={"device": "A"}),
            "no loss was recorded",
        ),
    ],
)
def test_what_is_no_evidence(old, new, why):
    one = drift(NAMES, old, new)
    assert why in one.void and not one.apart


def test_on_an_accelerator_fingerprints_are_others_and_losses_count():
    cuda = {**SETTINGS, "device": "A"}
    other = {(rank, step): f"{rank}{step}" * 3 for rank in range(2) for step in range(1, 13)}
    one = drift(NAMES, baseline(), baseline(models=other, settings=cuda))
    assert not one.apart and "accelerator" in one.remark
    parted = drift(NAMES, baseline(), drifted(baseline(models=other), since=4, settings=cuda))
    assert (parted.step, list(parted.values)) == (4, ["loss"])
    assert drift(NAMES, baseline(settings=cuda), baseline(models=other, settings=cuda)).apart


def test_whose_they_are_must_be_said():
    with pytest.raises(UsageError, match="experiments"):
        drift((), baseline(), baseline())


def with_options(one, value):
    ranks = {rank: {**own, "options": [value] * one.steps} for rank, own in one.ranks.items()}
    return Baseline(one.job, one.steps, True, ranks, settings=SETTINGS)


def test_options_that_change_nothing_are_remarked_and_are_no_parting():
    one = drift(NAMES, with_options(baseline(), "a" * 32), with_options(baseline(), "b" * 32))
    assert not one.apart and not one.void and "options of the parameter groups differ" in one.remark


def test_options_that_change_what_is_computed_are_where_it_begins():
    new = with_options(drifted(baseline(), since=2), "b" * 32)
    one = drift(NAMES, with_options(baseline(), "a" * 32), new)
    assert (one.step, list(one.values), one.first.step) == (1, ["options"], 2) and not one.remark
