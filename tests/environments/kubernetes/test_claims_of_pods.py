"""Volume claims that a cluster makes for the pods of a job template: they go with the run, and those of others stay."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes import objects
from chaoskit.environments.kubernetes.api_kinds import CLAIMS
from chaoskit.environments.kubernetes.cleanup import clean_up
from chaoskit.environments.kubernetes.connection import ApiTarget
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.selectors import OWNER, RUN, RunSelector
from chaoskit.environments.machine.sweep import sweep as sweep_machine
from chaoskit.errors import ChaoskitError
from tests.environments.events import arrivals
from tests.environments.kubernetes.jobs_of_stubs import starts
from tests.environments.kubernetes.test_environment import killed_harness
from tests.kubernetes_server.objects import claim

pytestmark = pytest.mark.launches
HELD = "example.com/backup"


@pytest.fixture
def foreign(api_server, cluster):
    """Claims of others, some with labels like ours; none may be touched. `runs` is that of `{out}`."""
    labels = ({}, {RUN: "one"}, {OWNER: "u1"}, {RUN: "one", OWNER: "u1"})
    for number, each in enumerate(labels):
        api_server.put(CLAIMS.plural, claim(f"foreign-{number}", labels=each), namespace=cluster.namespace)
    return {"runs", *(f"foreign-{number}" for number in range(len(labels)))}


@pytest.fixture
def there(connection, cluster):
    """The claims in the namespace, by their names."""
    path = ApiTarget(CLAIMS, cluster.namespace)
    return lambda: {one["metadata"]["name"]: one for one in connection.page(path, {})["items"]}


def test_each_pod_has_one_and_none_is_left(scratch_place, connection, foreign, there, until):
    with KubernetesEnvironment(scratch_place) as env:
        env.launch(0, [])
        arrivals(env, 2)
        pods = {node.pod for node in env.pods.now.values()}
        of_run = RunSelector(env.pods.objects.identity, "node")
        made = listed(connection, CLAIMS, of_run).manifests
        assert {one["metadata"]["name"] for one in made} == {f"{pod}-scratch" for pod in pods}
        assert {one["metadata"]["labels"]["team"] for one in made} == {"vision"}
        lost = env.pods.now["node1"].pod
        env.lose_node("node1")
        starts(env, "node1")
        until(lambda: f"{lost}-scratch" not in there(), timeout=60)
        assert len(listed(connection, CLAIMS, of_run).manifests) == 2
    assert set(there()) == foreign


def test_they_go_although_the_garbage_collector_of_the_cluster_is_late(scratch_place, api_server, foreign, there):
    with api_server.api.garbage.paused():
        with KubernetesEnvironment(scratch_place) as env:
            env.launch(0, [])
            arrivals(env, 2)
            assert len(there()) == 2 + len(foreign)
        assert set(there()) == foreign


def test_those_of_a_killed_harness_are_swept(scratch_place, api_server, foreign, there):
    killed_harness(scratch_place)
    assert len(there()) == 2 + len(foreign)
    sweep_machine(scratch_place.store)
    with api_server.api.garbage.paused():
        removed = KubernetesEnvironment.sweep(scratch_place.store)
    assert sum("PersistentVolumeClaim chaoskit" in one for one in removed) == 2, removed
    assert set(there()) == foreign


def test_one_that_something_holds_is_named_and_its_owner_stays_for_a_sweep(
    scratch_place, foreign, there, connection, monkeypatch
):
    hurried = lambda *args, **more: clean_up(*args, **{**more, "limit": 2.0})  # noqa: E731
    monkeypatch.setattr(objects, "clean_up", hurried)
    env = KubernetesEnvironment(scratch_place)
    env.__enter__()
    env.launch(0, [])
    arrivals(env, 2)
    identity, namespace = env.pods.objects.identity, env.pods.objects.identity.namespace
    name = f"{env.pods.now['node0'].pod}-scratch"
    held = there()[name]["metadata"]["finalizers"]
    connection.patch(ApiTarget(CLAIMS, namespace, name), {"metadata": {"finalizers": [*held, HELD]}})
    by_hand = f"kubectl delete persistentvolumeclaims {name} --namespace {namespace}"
    with pytest.raises(ChaoskitError, match=f"persistentvolumeclaims {name} is left: {by_hand}"):
        env.__exit__()
    assert set(there()) == {name, *foreign}
    assert there()[name]["metadata"]["finalizers"] == [HELD]
    connection.patch(ApiTarget(CLAIMS, namespace, name), {"metadata": {"finalizers": []}})
    assert clean_up(connection, identity, claims=True).left == ()
    assert set(there()) == foreign


def test_a_run_that_makes_none_does_not_look_for_any(job_place, api_server):
    with KubernetesEnvironment(job_place(steps=0)) as env:
        env.launch(0, [])
    assert not [call for call in api_server.calls if call.resource.plural == CLAIMS.plural]
