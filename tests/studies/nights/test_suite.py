"""A suite: what its results come to, which baseline is whose, and results from JSON of any version."""

import json

import pytest

from chaoskit.engine.result import Result
from chaoskit.verdict import Outcome
from tests.studies.nights.made import BASELINE, result, suite


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        (("pass", "skipped"), Outcome.PASS),
        (("pass", "inconclusive"), Outcome.INCONCLUSIVE),
        (("inconclusive", "fail", "pass"), Outcome.FAIL),
        (("skipped",), Outcome.INCONCLUSIVE),
        ((), Outcome.INCONCLUSIVE),
    ],
)
def test_the_outcome_is_that_of_what_was_not_skipped(verdicts, outcome):
    assert suite(*(result(f"test_{n}", verdict) for n, verdict in enumerate(verdicts))).outcome is outcome


def test_experiments_of_one_name_are_kept_apart():
    one, other, bare = result(nodeid="a.py::test_x"), result(nodeid="b.py::test_x"), result("test_y", nodeid="")
    assert suite(one, other, bare).experiments == {"a.py::test_x": one, "b.py::test_x": other, "test_y": bare}


def test_the_baseline_of_an_experiment_is_the_first_that_is_kept():
    one = result(references=("gone", "kept"))
    assert suite(one, baselines={"kept": BASELINE}).baseline(one) is BASELINE
    assert suite(one).baseline(one) is None
    assert suite(baselines={"kept": BASELINE}).baseline(result()) is None


def test_a_result_of_this_version_comes_back_whole():
    row = {"incarnation": 1, "rank": 0, "cells": {}}
    one = result(verdict="fail", runs=("/a", "/b"), table=(row,), stacks={"0": "here"})
    assert Result.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_a_result_of_another_version_has_what_is_known():
    told = {"name": "test_x", "verdict": "pass", "codes": [], "weather": "fine"}
    assert Result.from_json(told) == Result("test_x", "pass")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, "it lacks name, verdict"),
        ({"name": "x"}, "it lacks verdict"),
        ({"name": "x", "verdict": "great"}, "verdict must be one of pass, .*, not 'great'"),
        ({"name": "x", "verdict": "pass", "seconds": "2"}, "seconds must be a number or null, not '2'"),
        ({"name": "x", "verdict": "pass", "seconds": float("nan")}, "seconds must be a finite number"),
        ({"name": "x", "verdict": "pass", "runs": ["a", 3]}, r"runs\[1\] must be a text, not 3"),
        ({"name": "x", "verdict": "pass", "findings": [{"code": "hang"}]}, r"findings\[0\] lacks sentence"),
        ({"name": "x", "verdict": "pass", "advice": {"hang": 1}}, "advice.hang must be a text, not 1"),
        ({"name": "x", "verdict": "pass", "table": [{"rank": 0}]}, r"table\[0\] lacks .*incarnation"),
    ],
)
def test_what_is_no_result_is_refused(told, why):
    with pytest.raises(ValueError, match=why):
        Result.from_json(told)
