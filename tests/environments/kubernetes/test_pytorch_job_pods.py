"""The pods of a PyTorchJob as nodes: the kubelet restarts their containers, or the operator makes them again."""

from __future__ import annotations

import pytest

from chaoskit.environments.environment import ExtraEvent
from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.listing import listed
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


def test_a_lost_pod_is_made_again_under_its_name_and_joins_the_launch(pytorch_job_place, connection):
    with KubernetesEnvironment(pytorch_job_place()) as env:
        env.launch(0, [])
        assert arrivals(env, 2) == {0, 1}
        before = {node: (found.pod, found.uid) for node, found in env.pods.now.items()}
        assert before["node1"][0] == f"{env._service}-worker-1"
        env.lose_node("node1")
        assert env.is_lost("node1")
        starts(env, "node1")
        after = {node: (found.pod, found.uid) for node, found in env.pods.now.items()}
        assert after["node0"] == before["node0"]
        assert after["node1"][0] == before["node1"][0] and after["node1"][1] != before["node1"][1]
        (chosen,) = listed(connection, PODS, env.pods.selector("node1")).manifests
        assert chosen["metadata"]["uid"] == after["node1"][1]


def test_a_container_that_the_kubelet_restarts_joins_the_launch_in_the_same_pod(pytorch_job_place):
    with KubernetesEnvironment(pytorch_job_place()) as env:
        env.launch(0, [])
        arrivals(env, 2)
        before = {node: found.uid for node, found in env.pods.now.items()}
        env.order(1, {"do": "exit", "code": 7})
        env.release(1, keep_gating=True)
        starts(env, "node1")
        assert {node: found.uid for node, found in env.pods.now.items()} == before
        env.lose_node("node1")
        starts(env, "node1")
        assert env.pods.now["node1"].uid != before["node1"]


def test_an_exit_code_that_is_final_ends_the_launch_and_is_named(pytorch_job_place):
    with KubernetesEnvironment(pytorch_job_place(policy="ExitCode")) as env:
        env.launch(0, [])
        arrivals(env, 2)
        assert ends_with(env, 1, 7).code == 7, "the other pod would wait for ever"
        with pytest.raises(SupervisorGaveUp, match="ExitCode takes exit code 7 as final") as caught:
            env.launch(1, [])
        assert caught.value.code == "failure-policy-final"


def test_restarts_that_are_used_up(pytorch_job_place):
    with KubernetesEnvironment(pytorch_job_place(runPolicy={"backoffLimit": 1})) as env:
        env.launch(0, [])
        arrivals(env, 2)
        ends_with(env, 0, 7)
        said = r"no restart left \(runPolicy.backoffLimit: 1\): Job .* has reached the specified backoff limit"
        with pytest.raises(SupervisorGaveUp, match=said) as caught:
            env.launch(1, [])
        assert caught.value.code == "restart-budget-spent"


def test_a_suspended_job_loses_its_pods_and_gets_others(pytorch_job_place, connection):
    with KubernetesEnvironment(pytorch_job_place()) as env:
        env.launch(0, [])
        arrivals(env, 2)
        suspended_and_back(env, connection)


@pytest.mark.slow
def test_an_evicted_pod_is_made_again(pytorch_job_place, until):
    with KubernetesEnvironment(pytorch_job_place()) as env:
        env.launch(0, [])
        arrivals(env, 2)
        before = env.pods.now["node1"].uid
        env.evict_node("node1", replaced=True)
        found, started = [], []

        def is_seen():
            for event in env.wait(0.05):
                started.append(isinstance(event, ExtraEvent) and event.kind == "node.start")
            found[:] = [env.evicted("node1")]
            return found[0]

        until(is_seen, timeout=60)
        assert found[0]["gone"] == before
        if not any(started):
            starts(env, "node1")
        assert env.pods.now["node1"].uid != before


def test_faults_of_chaos_mesh_hit_the_pod_of_a_worker(pytorch_job_place, mesh_in_pods):
    there, back = ("node0", "node1"), ("node1", "node0")
    with KubernetesEnvironment(pytorch_job_place()) as env:
        env.launch(0, [])
        arrivals(env, 2)
        assert env.resolves("node0", "node1")
        number = env.cut([there])
        assert not env.reaches(*there) and env.reaches(*back)
        env.mend(number)
        assert env.reaches(*there)
        env.hide_names(["node1"])
        assert not env.resolves("node1", "node0") and env.resolves("node0", "node1")


def test_of_a_killed_harness_the_job_and_its_pods_are_swept(pytorch_job_place, connection, until):
    spec = pytorch_job_place()
    sweep_after_a_kill(spec, "PyTorchJob")
    until(lambda: left(connection, spec.cluster.namespace) == [])
