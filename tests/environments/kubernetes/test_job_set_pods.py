"""The pods of a JobSet as nodes: its controller makes all of them anew when its Job has failed."""

from __future__ import annotations

import pytest

from chaoskit.environments.environment import Ended
from chaoskit.environments.kubernetes.api_kinds import JOBS, PODS
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.errors import SupervisorGaveUp
from tests.environments.events import arrivals, news
from tests.environments.kubernetes.conftest import left
from tests.environments.kubernetes.jobs_of_stubs import (
    ends_with,
    starts,
    suspended_and_back,
    sweep_after_a_kill,
)

pytestmark = pytest.mark.launches
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


def test_a_failed_job_is_made_anew_with_all_its_pods(job_set_place, connection):
    with KubernetesEnvironment(job_set_place(job={"backoffLimit": 0})) as env:
        env.launch(0, [])
        assert arrivals(env, 2) == {0, 1}
        before = {found.uid for found in env.pods.now.values()}
        assert ends_with(env, 1, 7).code, "the Job has failed, and its other pod is deleted"
        env.launch(1, [])
        assert arrivals(env, 2) == {0, 1}
        assert before.isdisjoint(found.uid for found in env.pods.now.values())
        (job,) = listed(connection, JOBS, RunSelector(env.pods.objects.identity, "node")).manifests
        assert job["metadata"]["labels"][ATTEMPT] == "1"
        (chosen,) = listed(connection, PODS, env.pods.selector("node1")).manifests
        assert chosen["metadata"]["uid"] == env.pods.now["node1"].uid


def test_a_lost_pod_is_replaced_by_the_job_while_that_has_a_budget(job_set_place):
    with KubernetesEnvironment(job_set_place(job={"backoffLimit": 20})) as env:
        env.launch(0, [])
        arrivals(env, 2)
        before = {node: found.uid for node, found in env.pods.now.items()}
        env.lose_node("node1")
        assert env.is_lost("node1")
        starts(env, "node1")
        after = {node: found.uid for node, found in env.pods.now.items()}
        assert after["node0"] == before["node0"] and after["node1"] != before["node1"]


def test_restarts_that_are_used_up(job_set_place):
    with KubernetesEnvironment(job_set_place(job={"backoffLimit": 0}, failurePolicy={"maxRestarts": 0})) as env:
        env.launch(0, [])
        arrivals(env, 2)
        ends_with(env, 0, 7)
        said = r"no restart left \(failurePolicy.maxRestarts: 0, restarts: 0\)"
        with pytest.raises(SupervisorGaveUp, match=said) as caught:
            env.launch(1, [])
        assert caught.value.code == "restart-budget-spent"


def test_a_rule_that_takes_a_failure_as_final(job_set_place):
    on = {"containerName": "trainer", "operator": "In", "values": [7]}
    job = {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": on}]}}
    rule = {"name": "bug", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    with KubernetesEnvironment(job_set_place(job=job, failurePolicy={"maxRestarts": 9, "rules": [rule]})) as env:
        env.launch(0, [])
        arrivals(env, 2)
        ends_with(env, 0, 7)
        said = r"takes a Job that failed by PodFailurePolicy \(rule 0 'bug', FailJobSet\) as final"
        with pytest.raises(SupervisorGaveUp, match=said) as caught:
            env.launch(1, [])
        assert caught.value.code == "failure-policy-final"


def test_a_suspended_job_set_loses_its_pods_and_gets_others(job_set_place, connection):
    with KubernetesEnvironment(job_set_place()) as env:
        env.launch(0, [])
        arrivals(env, 2)
        suspended_and_back(env, connection)


def test_pods_that_have_ended_well_are_not_awaited(job_set_place, until):
    with KubernetesEnvironment(job_set_place(steps=1)) as env:
        env.launch(0, [])
        for rank in arrivals(env, 2):
            env.release(rank, keep_gating=False)
        assert news(env, Ended) == Ended(0, 0)
        until(lambda: env.pods.awaited() == [])


def test_of_a_killed_harness_the_job_set_its_job_and_the_pods_are_swept(job_set_place, connection):
    spec = job_set_place()
    sweep_after_a_kill(spec, "JobSet")
    assert left(connection, spec.cluster.namespace) == []
