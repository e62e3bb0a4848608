"""The nodes of a TrainJob: a JobSet of a runtime has them, and kubelets restart their containers."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.api_kinds import JOB_SETS, PODS
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.errors import SupervisorGaveUp
from tests.environments.events import arrivals
from tests.environments.kubernetes.conftest import left
from tests.environments.kubernetes.jobs_of_stubs import (
    ends_with,
    starts,
    suspended_and_back,
    sweep_after_a_kill,
)

pytestmark = pytest.mark.launches


@pytest.mark.slow
def test_a_lost_pod_and_a_failed_container_join_the_launch_again(train_job_place, connection):
    with KubernetesEnvironment(train_job_place(job={"backoffLimit": 20})) as env:
        env.launch(0, [])
        assert arrivals(env, 2) == {0, 1}
        (made,) = listed(connection, JOB_SETS, RunSelector(env.pods.objects.identity, "node")).manifests
        assert made["metadata"]["name"] == env._service
        before = {node: found.uid for node, found in env.pods.now.items()}
        env.order(1, {"do": "exit", "code": 7})
        env.release(1, keep_gating=True)
        starts(env, "node1")
        assert {node: found.uid for node, found in env.pods.now.items()} == before, "the runtime says nothing else"
        env.lose_node("node1")
        assert env.is_lost("node1")
        starts(env, "node1")
        after = {node: found.uid for node, found in env.pods.now.items()}
        assert after["node0"] == before["node0"] and after["node1"] != before["node1"]
        (chosen,) = listed(connection, PODS, env.pods.selector("node1")).manifests
        assert chosen["metadata"]["uid"] == after["node1"]


@pytest.mark.slow
def test_the_budget_of_the_runtime(train_job_place):
    with KubernetesEnvironment(train_job_place(job={"backoffLimit": 0}, failurePolicy={"maxRestarts": 0})) as env:
        env.launch(0, [])
        arrivals(env, 2)
        ends_with(env, 0, 7)
        with pytest.raises(SupervisorGaveUp, match=r"no restart left \(failurePolicy.maxRestarts: 0") as caught:
            env.launch(1, [])
        assert caught.value.code == "restart-budget-spent"


def test_a_suspended_job_loses_its_pods_and_gets_others(train_job_place, connection):
    with KubernetesEnvironment(train_job_place()) as env:
        env.launch(0, [])
        arrivals(env, 2)
        suspended_and_back(env, connection)


def test_of_a_killed_harness_all_is_swept(train_job_place, connection):
    spec = train_job_place()
    sweep_after_a_kill(spec, "TrainJob")
    assert left(connection, spec.cluster.namespace) == []
