"""The life of a fault against a controller of Chaos Mesh, with whatever may go wrong."""

from __future__ import annotations

import copy
import threading
import time
from dataclasses import replace

import pytest

from chaoskit.environments.kubernetes.chaos import fault_state, network_specs, pod_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_fault import ChaosFault
from chaoskit.environments.kubernetes.chaos.refusals import FaultNotInjected
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget
from chaoskit.environments.kubernetes.objects import ForeignTarget
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector
from tests.environments.kubernetes.chaos.some_specs import ONE, examples


@pytest.fixture
def pods(running):
    running(0)
    running(1)
    running(2, phase="Pending")


def aim(run, node):
    return Aim(RunSelector(run.identity, "trainer", node))


def partition(run, seconds=30):
    return network_specs.partition(aim=aim(run, 0), target=aim(run, 1), direction="to", seconds=seconds)


def inject(run, connection, spec, *, limit=10.0, recovery=10.0, name="fault-1"):
    return ChaosFault.inject(run, connection, spec, name, limit=limit, recovery=recovery)


def faults(connection, cluster, spec):
    items = connection.page(ApiTarget(spec.kind, cluster.namespace), {})["items"]
    return [one["metadata"]["name"] for one in items]


def definitions(api_server):
    return api_server.store.all(api_server.catalogue.named("customresourcedefinitions", "apiextensions.k8s.io"))


def test_a_partition_is_injected_and_taken_back(run, connection, cluster, mesh, pods):
    fault = inject(run, connection, partition(run))
    action = ("NetworkChaos", "partition", ("trainer-0", "trainer-1"))
    assert (mesh.backend.applied, mesh.backend.undone) == ([action], [])
    assert fault.state.is_injected and not fault.state.is_recovered and fault.pods() == ("trainer-0", "trainer-1")
    said = fault.evidence()
    assert said["kind"] == "NetworkChaos" and said["conditions"]["AllInjected"] and said["seconds"] == 30
    assert [(one["side"], one["phase"], one["injected"]) for one in said["records"]] == [
        (".", "Injected", 1), (".Target", "Injected", 1),
    ]  # fmt: skip
    end = fault.end(limit=10)
    assert end.is_clean and end.sentences == () and mesh.backend.undone == [action]
    assert faults(connection, cluster, fault.spec) == [] and fault.is_gone
    assert fault.end(limit=10).is_clean


def test_recovered_before_the_injection_is_no_recovery(run, connection, mesh, pods, until):
    """`AllRecovered` is true as soon as pods are chosen."""
    mesh.slow = 1.0
    spec, seen = partition(run), []
    made = run.create(spec.kind, spec.manifest("fault-0"), role="fault-0")
    fault = ChaosFault(run, connection, spec, made)
    until(lambda: seen.append(fault.refresh()) or fault.state.is_injected)
    early = [state for state in seen if state.conditions.get("AllRecovered")]
    assert early and not any(state.is_recovered or state.is_injected for state in early)
    begun = time.monotonic()
    assert inject(run, connection, spec).state.is_injected
    assert time.monotonic() - begun >= 0.9


@pytest.mark.parametrize("name", examples())
def test_every_kind(run, connection, mesh, pods, name):
    fault = inject(run, connection, examples(run.identity)[name])
    assert fault.state.was_injected and mesh.backend.applied[0][0] == fault.spec.kind.kind
    assert fault.end(limit=10).is_clean


def test_a_fault_ends_by_itself_after_its_duration(run, connection, mesh, pods, until):
    fault = inject(run, connection, partition(run, seconds=2))
    until(lambda: fault.refresh().is_recovered)
    assert fault.state.was_injected and not fault.state.is_injected and len(mesh.backend.undone) == 1
    assert fault.end(limit=10).is_clean


def test_an_injection_that_fails_says_why_and_is_removed(run, connection, cluster, mesh, pods):
    mesh.fails = lambda pod: "unable to flush ip sets" if pod == "trainer-1" else None
    with pytest.raises(FaultNotInjected, match=r"trainer-1: unable to flush ip sets: look at the log of chaos-daemon"):
        inject(run, connection, partition(run), limit=1)
    assert faults(connection, cluster, partition(run)) == [] and mesh.backend.applied == []


def test_an_injection_that_takes_too_long(run, connection, cluster, mesh, pods):
    mesh.slow = 60.0
    with pytest.raises(FaultNotInjected, match="within 1 s: trainer-0, trainer-1 still wait for it"):
        inject(run, connection, partition(run), limit=1)
    assert faults(connection, cluster, partition(run)) == []


def test_an_injection_that_begins_after_the_duration(run, connection, mesh, pods):
    mesh.slow = 3.0
    with pytest.raises(FaultNotInjected, match="its duration of 2 s was over before: make it longer"):
        inject(run, connection, partition(run, seconds=2), limit=4)


def test_no_running_pod(run, connection, mesh, pods):
    spec = network_specs.partition(aim=aim(run, 0), target=aim(run, 2), seconds=30)
    with pytest.raises(FaultNotInjected, match="its selector matches no running pod: is the job running"):
        inject(run, connection, spec, limit=1)


def test_a_controller_that_does_nothing(run, connection, cluster, mesh, pods):
    mesh.is_idle = True
    with pytest.raises(FaultNotInjected, match="the controller of Chaos Mesh has not looked at it: it is down"):
        inject(run, connection, partition(run), limit=1)
    assert faults(connection, cluster, partition(run)) == []


def test_a_controller_that_is_down_refuses_everything(run, connection, cluster, mesh, pods):
    fault = inject(run, connection, partition(run))
    with mesh.down():
        with pytest.raises(ClusterError, match=r"failed calling webhook.*controller of Chaos Mesh is down") as raised:
            inject(run, connection, partition(run), name="fault-2")
        assert "\n" not in str(raised.value)
        end = fault.end(limit=1)  # even the annotation that forces it
        assert (end.how, end.pods) == ("left", ("trainer-0", "trainer-1"))
        by_hand = f"kubectl delete networkchaos.chaos-mesh.org fault-1 --namespace {cluster.namespace}"
        assert by_hand in end.sentences[0] and "its fault may last" in end.sentences[0]
    assert fault.end(limit=10).is_clean


def test_a_recovery_that_is_stuck_is_forced_and_that_is_told(run, connection, cluster, mesh, pods):
    fault = inject(run, connection, partition(run))
    mesh.stuck = "container not found"
    end = fault.end(limit=1)
    assert end.how == "forced" and mesh.backend.undone == [] and faults(connection, cluster, fault.spec) == []
    assert end.sentences == (
        "NetworkChaos fault-1 was removed by force, because Chaos Mesh did not take it back: remove its pods "
        "(trainer-0, trainer-1)",
    )
    assert fault.state.complaints[-1].endswith("container not found")


def test_a_fault_that_somebody_removes(run, connection, cluster, mesh, pods, until):
    mesh.slow = 60.0
    spec = partition(run)

    def remove():
        until(lambda: faults(connection, cluster, spec))
        found = connection.get(ApiTarget(spec.kind, cluster.namespace, "fault-1"))
        connection.delete(ApiTarget(spec.kind, cluster.namespace, "fault-1"), uid=found["metadata"]["uid"])

    other = threading.Thread(target=remove)
    other.start()
    with pytest.raises(FaultNotInjected, match="was removed by somebody before it was injected"):
        inject(run, connection, spec)
    other.join()


def test_what_the_webhook_refuses(run, connection, mesh, pods):
    """Our builders refuse it before; whoever makes a spec by hand is told by the webhook."""
    good = network_specs.delay(aim=aim(run, 0), target=aim(run, 1), direction="both", latency=0.1, seconds=30)
    bad = replace(good, spec={name: value for name, value in good.spec.items() if name != "target"})
    with pytest.raises(ClusterError, match=r"denied the request: .*when targets is empty.*: a webhook of"):
        inject(run, connection, bad)


def test_a_cluster_without_chaos_mesh(run, connection, api_server, pods):
    for definition in definitions(api_server):
        api_server.catalogue.uninstall(definition)
    with pytest.raises(ClusterError, match=r"does not serve NetworkChaos .*: install Chaos Mesh 2.x"):
        inject(run, connection, partition(run))


def test_a_definition_of_an_older_version(run, connection, api_server, mesh, pods):
    """One that does not know a field would drop it silently, were validation not strict."""
    (found,) = [one for one in definitions(api_server) if one["spec"]["names"]["plural"] == "networkchaos"]
    older = copy.deepcopy(found)
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["direction"]
    api_server.catalogue.install(older)
    with pytest.raises(ClusterError, match=r'unknown field "spec.direction": its definition of NetworkChaos'):
        inject(run, connection, partition(run))


def test_pods_of_others_are_never_aimed_at(run, connection, mesh, pods):
    other = RunIdentity(run.identity.namespace, "r2", run.identity.uid)
    spec = pod_specs.stress(aim=Aim(RunSelector(other)), cpu_workers=1, seconds=30)
    with pytest.raises(ForeignTarget):
        inject(run, connection, spec)


def test_a_state_of_nothing_claims_nothing():
    for manifest in ({}, {"status": None}, {"status": {"conditions": [{"type": "AllInjected", "status": "True"}]}}):
        state = fault_state.read(manifest)
        assert not (state.was_injected or state.is_recovered or state.has_targets)
    assert ONE.labels and not fault_state.read({"metadata": {"finalizers": ["other"]}}).is_taken_up
