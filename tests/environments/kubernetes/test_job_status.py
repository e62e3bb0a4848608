"""Why the controller of Jobs starts nothing again, from what it says."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.job_status import JobStatus


def status(reason="", *, kind="FailureTarget", **more):
    condition = {"type": kind, "status": "True", "reason": reason, "message": "the controller's words"}
    return JobStatus.of({"status": {"conditions": [condition] if reason else [], **more}})


def rules(*rules):
    """A policy of rules, each an action, an operator and exit codes."""
    made = [
        {"action": action, "onExitCodes": {"operator": op, "values": codes, **name}}
        for action, op, codes, name in rules
    ]
    return {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": []}, *made]}}


def told(found, spec=None, codes=None):
    over = found.gave_up(spec or {}, container="trainer", codes=codes or {})
    return (over.code, str(over)) if over is not None else None


@pytest.mark.parametrize(
    "found", [JobStatus.of({}), status(), status("JobResumed", kind="Suspended"), status(failed=3)]
)
def test_a_job_that_goes_on(found):
    assert told(found) is None


def test_a_condition_that_does_not_hold_counts_nothing():
    condition = {"type": "Failed", "status": "False", "reason": "x", "message": "y"}
    assert told(JobStatus.of({"status": {"conditions": [condition]}})) is None


@pytest.mark.parametrize("kind", ["FailureTarget", "Failed"])
def test_a_rule_that_takes_an_exit_code_as_final_is_named(kind):
    spec = rules(("FailJob", "In", [1], {"containerName": "trainer"}))
    code, text = told(status("PodFailurePolicy", kind=kind), spec, {0: 137, 1: 1})
    assert code == "failure-policy-final"
    assert text == (
        "the podFailurePolicy of the Job takes exit code 1 (rule 1, FailJob) as final: the controller's words"
    )


def test_a_rule_of_one_index():
    spec = {**rules(("FailIndex", "NotIn", [42], {})), "backoffLimitPerIndex": 5}
    code, text = told(status(failedIndexes="1"), spec, {0: 42, 1: 3})
    assert code == "failure-policy-final" and "exit code 3 (rule 1, FailIndex)" in text
    assert "index 1 has failed for good" in text


@pytest.mark.parametrize(
    "rule",
    [
        ("FailJob", "In", [2], {}),
        ("FailJob", "NotIn", [1], {}),
        ("Count", "In", [1], {}),
        ("FailIndex", "In", [1], {"containerName": "sidecar"}),
    ],
)
def test_a_budget_of_an_index_that_no_rule_has_cut_short(rule):
    spec = {**rules(rule), "backoffLimitPerIndex": 2}
    code, text = told(status("FailedIndexes", failedIndexes="0,2-3"), spec, {0: 1, 2: 1, 3: 1})
    assert code == "restart-budget-spent"
    assert "no restart left (backoffLimitPerIndex: 2, indexes failed: 3): the controller's words" in text


def test_an_earlier_rule_says_otherwise():
    spec = {**rules(("Count", "In", [1], {}), ("FailIndex", "In", [1], {})), "backoffLimitPerIndex": 2}
    assert told(status(failedIndexes="0"), spec, {0: 1})[0] == "restart-budget-spent"


@pytest.mark.parametrize(("spec", "limit"), [({"backoffLimit": 2}, 2), ({}, 6)])
def test_a_budget_of_the_whole_job(spec, limit):
    code, text = told(
        status("BackoffLimitExceeded", failed=3), {**spec, **rules(("FailJob", "In", [1], {}))}, {0: 1}
    )
    assert code == "restart-budget-spent" and f"(backoffLimit: {limit}, pods failed: 3)" in text


def test_another_reason_is_told_as_it_is():
    assert told(status("DeadlineExceeded")) == (
        "crash-loop", "the Job has failed (DeadlineExceeded): the controller's words",
    )  # fmt: skip
