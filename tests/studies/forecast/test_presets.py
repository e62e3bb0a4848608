"""The published rates, against what their sources say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.errors import UsageError
from chaoskit.studies.forecast.presets import PRESETS, FailureClass, mttf_hours, preset


def per_hour(name: str, gpus: int) -> float:
    """The failures of a job of so many GPUs in an hour."""
    units = {"gpu": gpus, "node": gpus / 8}
    return sum(units[each.unit] / each.mtbf_hours for each in preset(name, gpus=gpus).classes)


def test_llamas_causes_are_all_of_its_419_interruptions():
    known = preset("llama3", gpus=16_384)
    assert per_hour("llama3", 16_384) * 54 * 24 == pytest.approx(419)
    counts = {each.name: round(16_384 / (8 if each.unit == "node" else 1) * 54 * 24 / each.mtbf_hours)
              for each in known.classes}  # fmt: skip
    # Table 5: 148 GPUs, 72 HBM3, 54 software, 35 network, 7 NCCL timeouts, 6 silent corruptions.
    assert counts["network"] == 35 and counts["collective timeout"] == 7 and counts["silent data corruption"] == 6
    assert counts["GPU and its memory"] >= 148 + 72 and counts["software"] >= 54


@pytest.mark.parametrize(("gpus", "hours"), [(1_024, 7.9), (16_384, 1.8), (512, 15.8), (32_768, 0.9)])
def test_the_mean_time_to_failure_is_the_published_one(gpus: int, hours: float):
    assert mttf_hours(gpus) == pytest.approx(hours)
    assert 1 / per_hour("mttf-by-size", gpus) == pytest.approx(hours)


@given(gpus=st.integers(1, 10**6), more=st.integers(1, 10**6))
def test_larger_jobs_fail_more_often(gpus: int, more: int):
    assert mttf_hours(gpus + more) < mttf_hours(gpus)


def test_a_node_is_left_alone_on_a_day_with_999_in_a_thousand():
    assert math.exp(-per_hour("node-day", 8) * 24) == pytest.approx(0.999)


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_has_its_source_and_its_rate(name: str):
    found = preset(name, gpus=1000)
    assert len(found.source) > 30 and found.name == name
    assert 1 / per_hour(name, 1000) * 1000 == pytest.approx(found.mtbf_gpu_hours)
    assert sum({"gpu": 1, "node": 1 / 8}[each.unit] / each.mtbf_hours for each in found.scaled(777.0).classes) == (
        pytest.approx(1 / 777)
    )


@given(shape=st.floats(0.5, 5), mtbf=st.floats(1, 1e6))
def test_the_mean_of_a_lifetime_is_its_mtbf_whatever_its_shape(shape: float, mtbf: float):
    one = FailureClass("gpu", "gpu", mtbf, shape=shape)
    # The mean is the integral of the survival; by quantiles of equal weight.
    quantiles = [(at + 0.5) / 20_000 for at in range(20_000)]
    mean = sum(one.scale_hours * (-math.log1p(-each)) ** (1 / shape) for each in quantiles) / 20_000
    assert mean == pytest.approx(mtbf, rel=0.05)


@given(shape=st.floats(0.5, 5), mtbf=st.floats(100, 1e6), hours=st.floats(1, 1000))
def test_another_shape_expects_as_many_failures(shape: float, mtbf: float, hours: float):
    one = FailureClass("gpu", "gpu", mtbf)
    if one.expected(hours) <= 1:
        assert one.shaped(shape, hours=hours).expected(hours) == pytest.approx(hours / mtbf, rel=1e-6)


def test_after_many_failures_one_expects_one_for_each_lifetime():
    assert FailureClass("gpu", "gpu", 10.0).expected(1000.0) == pytest.approx(100)
    assert FailureClass("gpu", "gpu", 10.0, shape=2.0).expected(1000.0) == pytest.approx(99.6, abs=0.1)


@pytest.mark.parametrize(
    ("changed", "name"),
    [({"mtbf_hours": 0}, "mtbf_hours"), ({"shape": 0.0}, "shape"), ({"unit": "rank"}, "unit"),
     ({"symptom": "odd"}, "symptom"), ({"nodes_lost": -1}, "nodes_lost"), ({"mtbf_hours": math.nan}, "mtbf_hours")],
)  # fmt: skip
def test_a_class_that_cannot_be_is_refused(changed: dict, name: str):
    with pytest.raises(UsageError, match=name):
        FailureClass(**{"name": "gpu", "unit": "gpu", "mtbf_hours": 10.0, **changed})


def test_an_unknown_preset_is_refused():
    with pytest.raises(UsageError, match="llama3, mttf-by-size, node-day"):
        preset("opt", gpus=8)
