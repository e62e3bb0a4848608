"""The pods that the controller of Jobs makes as nodes: they are followed, replaced and let go."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanSuspend, InjectedIOError
from chaoskit.environments.environment import Ended, ExtraEvent
from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.selectors import INDEX
from chaoskit.environments.kubernetes.supervised_job import DIFFERENCE
from chaoskit.errors import SupervisorGaveUp
from chaoskit.faults.storage.fail_storage import MODIFYING
from chaoskit.job import Job
from tests.environments.events import arrivals, news
from tests.environments.kubernetes.a_job import a_job
from tests.environments.kubernetes.conftest import left
from tests.environments.kubernetes.jobs_of_stubs import starts, suspended_and_back, sweep_after_a_kill

pytestmark = pytest.mark.launches


def test_a_lost_pod_is_replaced_under_its_index_and_joins_the_launch(job_place, pods_place, connection):
    with KubernetesEnvironment(job_place()) as env:
        env.launch(0, ["what the pods were made for is what runs"])
        assert arrivals(env, 2) == {0, 1} and env.nodes() == ("node0", "node1")
        before = {node: found.uid for node, found in env.pods.now.items()}
        assert env.lose_node("node1")["uid"] == before["node1"] and env.is_lost("node1")
        assert env.nodes() == ("node0",)
        starts(env, "node1")
        after = {node: found.uid for node, found in env.pods.now.items()}
        assert after["node0"] == before["node0"] and after["node1"] != before["node1"]
        (chosen,) = listed(connection, PODS, env.pods.selector("node1")).manifests
        assert chosen["metadata"]["uid"] == after["node1"] and chosen["metadata"]["labels"][INDEX] == "1"
        assert "chaoskit.dev/owner" in (pods_place.run_dir / DIFFERENCE).read_text()


def test_pods_end_with_the_codes_of_their_commands(job_place, until):
    with KubernetesEnvironment(job_place(steps=1)) as env:
        env.launch(0, [])
        arrivals(env, 2)
        for rank in range(2):
            env.release(rank, keep_gating=False)
        assert news(env, Ended) == Ended(0, 0)
        until(lambda: env.pods.awaited() == [])
        assert env.pods.absent == ["node0", "node1"], "both pods have ended, and the controller makes none again"


def test_a_code_that_a_rule_takes_as_final_ends_the_launch_and_is_named(job_place):
    on = {"containerName": "trainer", "operator": "In", "values": [7]}
    policy = {"rules": [{"action": "FailIndex", "onExitCodes": on}]}
    with KubernetesEnvironment(job_place(backoffLimitPerIndex=9, podFailurePolicy=policy)) as env:
        env.launch(0, [])
        arrivals(env, 2)
        env.order(1, {"do": "exit", "code": 7})
        env.release(1, keep_gating=True)
        assert news(env, Ended).code == 7, "the other pod would wait for ever"
        with pytest.raises(SupervisorGaveUp, match=r"takes exit code 7 \(rule 0, FailIndex\) as final") as caught:
            env.launch(1, [])
        assert caught.value.code == "failure-policy-final"


def test_an_index_without_a_restart_left(job_place):
    with KubernetesEnvironment(job_place(backoffLimitPerIndex=0)) as env:
        env.launch(0, [])
        arrivals(env, 2)
        env.order(0, {"do": "exit", "code": 7})
        env.release(0, keep_gating=True)
        assert news(env, Ended).code == 7
        with pytest.raises(SupervisorGaveUp, match=r"\(backoffLimitPerIndex: 0, indexes failed: 1\)") as caught:
            env.launch(1, [])
        assert caught.value.code == "restart-budget-spent"


def test_a_suspended_job_loses_its_pods_after_a_sigterm_and_gets_others(job_place, connection):
    with KubernetesEnvironment(job_place()) as env:
        with pytest.raises(LookupError, match="nothing of the job runs"):
            env.suspend()
        env.launch(0, [])
        arrivals(env, 2)
        before = {node.uid for node in env.pods.now.values()}
        evidence = suspended_and_back(env, connection)
        assert set(evidence["nodes"].values()) == before and evidence["job"] == env._service


def test_an_evicted_pod_of_a_job_is_replaced_under_its_index(job_place, until):
    with KubernetesEnvironment(job_place()) as env:
        env.launch(0, [])
        arrivals(env, 2)
        before = {node: found.uid for node, found in env.pods.now.items()}
        env.evict_node("node1", replaced=True)
        found, started = [], []

        def is_seen():
            for event in env.wait(0.05):
                assert not isinstance(event, Ended), event
                started.append(isinstance(event, ExtraEvent) and event.kind == "node.start")
            found[:] = [env.evicted("node1")]
            return found[0]

        until(is_seen, timeout=60)
        assert found[0]["gone"] == before["node1"] and found[0]["sigterm"]["delivered"]
        assert found[0]["ended"] is not None and found[0]["killed"] is None
        if not any(started):
            starts(env, "node1")
        after = {node: found.uid for node, found in env.pods.now.items()}
        assert after["node0"] == before["node0"] and after["node1"] != before["node1"]


def test_only_a_job_is_suspended(pods_place):
    lacks = KubernetesEnvironment.lacks
    own = Job.from_command(["x", "{out}"], image="t", cluster=pods_place.cluster)
    assert lacks(CanSuspend, own) == "only the pods of a controller can be suspended: run a job with --job-template"
    assert lacks(CanSuspend, replace(own, cluster=replace(own.cluster, job_template=a_job()))) is None


def test_of_a_killed_harness_the_job_and_its_pods_are_swept(job_place, connection):
    spec = job_place()
    sweep_after_a_kill(spec, "Job")
    assert left(connection, spec.cluster.namespace) == []


def test_faults_of_chaos_mesh_hit_the_pod_of_an_index_and_the_one_that_replaces_it(job_place, mesh_in_pods):
    there, back = ("node0", "node1"), ("node1", "node0")
    with KubernetesEnvironment(job_place()) as env:
        env.launch(0, [])
        arrivals(env, 2)
        assert env.reaches(*there) and env.resolves("node0", "node1")
        number = env.cut([there])
        assert not env.reaches(*there) and env.reaches(*back)
        cut = {claim["uid"] for claim in env.claims()}
        env.lose_node("node1")
        starts(env, "node1")
        assert not env.reaches(*there) and env.reaches(*back), "the fresh pod is cut off, too"
        assert cut.isdisjoint(claim["uid"] for claim in env.claims()), "whatever address it has"
        env.mend(number)
        assert env.reaches(*there)
        env.hide_names(["node1"])
        assert not env.resolves("node1", "node0") and env.resolves("node0", "node1")


def test_faults_of_chaos_mesh_hit_the_container_that_trains(job_place, mesh_in_pods):
    """Without its name Chaos Mesh would choose the first one."""
    spec = job_place()
    pod = spec.cluster.job_template["spec"]["template"]["spec"]
    beside = {"name": "logs", "image": spec.image, "command": ["sleep", "1000"]}
    pod["containers"] = [beside, *pod["containers"]]
    with KubernetesEnvironment(spec) as env:
        number = env.fail_storage(InjectedIOError(operations=MODIFYING, error="EROFS", nodes=("node1",)))
        errors = [env.pods.ask(node, "error_of_write", directory=str(spec.out)) for node in ("node0", "node1")]
        assert errors == [0, errno.EROFS]
        env.mend_storage(number)
