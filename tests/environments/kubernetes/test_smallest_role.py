"""The Role that is printed is what runs really ask for: no rule is missing, and none is too much."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
import yaml

from chaoskit.environments.environment import Arrived, Ended
from chaoskit.environments.kubernetes import (
    chaos_check,
    cluster_check,
    cluster_needs,
    image_look,
    kubeconfig,
    objects,
)
from chaoskit.environments.kubernetes.api_kinds import CHAOS_FAULTS, CONFIG_MAPS, PODS
from chaoskit.environments.kubernetes.chaos import network_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_fault import ChaosFault
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector
from chaoskit.nodes import Nodes
from tests.environments.events import news
from tests.environments.kubernetes.cluster_objects import named, pod
from tests.environments.kubernetes.test_permissions import granted
from tests.kubernetes_server.chaos_controller import ChaosController
from tests.kubernetes_server.faults import ApiFault

RBAC = "rbac.authorization.k8s.io"
#: What runs make.
MADE = ("pods", "services", "configmaps", "jobs", "jobsets", "pytorchjobs", "trainjobs")
#: Lists of what a run could not have made without the permission: a refusal says that there is none of it.
LOOKED_FOR = {("chaos-mesh.org", "list")}


@pytest.fixture
def small_user(api_server, cluster, tmp_path):
    """Makes a kubeconfig of somebody with the printed Role alone."""

    def make(*, chaos, claims=False):
        api_server.add_user("chaosbot")
        connection = ClusterConnection(kubeconfig.of_context(cluster.context, file=str(cluster.kubeconfig)))
        text = cluster_check.smallest_role(connection, cluster.namespace, chaos=chaos, claims=claims).as_yaml()
        connection.close()
        role, binding = yaml.safe_load_all(text.replace("kubernetes-admin", "chaosbot"))
        api_server.put("roles", role, group=RBAC, namespace=cluster.namespace)
        api_server.put("rolebindings", binding, group=RBAC, namespace=cluster.namespace)
        return str(api_server.kubeconfig(tmp_path, token="chaosbot")), granted(role)

    return make


def asked(api_server):
    """What that user has asked for, as a Role names it."""
    return {
        (call.resource.group, "/".join(filter(None, [call.resource.plural, call.subresource])), call.verb)
        for call in api_server.calls
        if call.headers.get("authorization") == "Bearer chaosbot"
        and call.resource.plural not in ("selfsubjectaccessreviews", "selfsubjectreviews")
    }


def answers_are_lost():
    """The answer to the first creation of each kind, and to the first removal of a pod, does not arrive."""
    seen = set()

    def decide(call):
        key = (call.verb, call.resource.plural)
        if call.verb == "create" and call.resource.plural in MADE and key not in seen:
            seen.add(key)
            return ApiFault("reset", applied=True)
        return None

    return decide


@pytest.mark.launches
@pytest.mark.usefixtures("crds")
def test_runs_without_chaos_mesh_ask_for_exactly_what_the_role_grants(
    pods_place, job_place, job_set_place, pytorch_job_place, train_job_place, stub, api_server, small_user
):
    """One of pods that chaoskit makes, and one of each kind of job template."""
    file, role = small_user(chaos=False)
    image_look._known.clear()

    def may(spec):
        return replace(spec, cluster=replace(spec.cluster, kubeconfig=file), nodes=Nodes(2, 2))

    with api_server.faulty(answers_are_lost()):
        with KubernetesEnvironment(may(pods_place)) as env:
            env.launch(0, stub(0, 9))
            news(env, Arrived)
            env.lose_node("node1")
            env.launch(1, stub(0, 9))
            news(env, Arrived)
            env.evict_node("node0", replaced=False)
            assert news(env, Ended).launch == 1
            env.launch(2, stub(0, 0))
            assert news(env, Ended) == Ended(2, 0)
        of_pods = asked(api_server)
        before = of_pods
        for place, plural in (
            (job_place, "jobs"), (job_set_place, "jobsets"), (pytorch_job_place, "pytorchjobs"),
            (train_job_place, "trainjobs"),
        ):  # fmt: skip
            with KubernetesEnvironment(may(place(steps=9))) as env:
                env.launch(0, [])
                news(env, Arrived)
                env.suspend()
                assert news(env, Ended) == Ended(0, -15)
                env.resume()
            more, before = asked(api_server) - before, asked(api_server)
            assert {one[2] for one in more} == {"create", "get", "delete", "patch"}
            assert {one[1] for one in more} == {plural}
    requests = asked(api_server)
    assert {one for one in requests if (one[0], one[2]) not in LOOKED_FOR} == role


@pytest.mark.launches
def test_volume_claims_of_pods_are_removed_with_exactly_what_the_role_grants_for_them(
    scratch_place, api_server, small_user
):
    file, role = small_user(chaos=False, claims=True)
    image_look._known.clear()
    place = replace(scratch_place.cluster, kubeconfig=file)
    with api_server.api.garbage.paused(), KubernetesEnvironment(replace(scratch_place, cluster=place)) as env:
        env.launch(0, [])
        news(env, Arrived)
    of_claims = {("", "persistentvolumeclaims", verb) for verb in ("list", "delete")}
    requests = {one for one in asked(api_server) if (one[0], one[2]) not in LOOKED_FOR}
    assert of_claims <= requests <= role
    assert role - small_user(chaos=False)[1] == of_claims


@pytest.mark.usefixtures("crds")
def test_a_fault_of_chaos_mesh_asks_for_exactly_what_the_role_grants(api_server, cluster, small_user, tmp_path):
    file, role = small_user(chaos=True)
    connection = ClusterConnection(kubeconfig.of_context(cluster.context, file=file))
    controller = ChaosController(api_server).start()
    controller.slow = 0.5  # so that something is waited for
    try:
        run = RunObjects(connection, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)
        run.create(PODS, pod("p0"), role="node", node=0)
        running = {**api_server.store.get(api_server.catalogue.named("pods"), cluster.namespace, "p0")}
        api_server.store.put(api_server.catalogue.named("pods"), {**running, "status": {"phase": "Running"}})
        aim = Aim(RunSelector(run.identity, "node"), "one")
        fault = ChaosFault.inject(run, connection, network_specs.delay(aim=aim, latency=0.1, seconds=60.0), "slow")
        controller.stuck = "iptables: not found"
        assert fault.end(limit=1).how == "forced"
        run.close()
    finally:
        controller.stop()
        connection.close()
    of_chaos = {one for one in asked(api_server) if one[1] == "networkchaos"}
    assert of_chaos == {one for one in role if one[1] == "networkchaos"}
    assert {one[1] for one in role if one[0] == "chaos-mesh.org"} == {kind.plural for kind in CHAOS_FAULTS}
    assert {one[2] for one in role if one[0] == "chaos-mesh.org"} == {one[2] for one in of_chaos}


def test_the_kinds_of_chaos_mesh_in_the_role_are_those_that_faults_need_and_specs_are_made_of():
    kinds = {spec.kind for spec in chaos_check.one_of_each(RunIdentity("staging", "r1", "u1"))}
    assert kinds == set(CHAOS_FAULTS) == set(cluster_needs._KINDS.values())


def test_objects_of_dead_harnesses_are_swept_with_the_role(api_server, cluster, small_user):
    file, role = small_user(chaos=False)
    connection = ClusterConnection(kubeconfig.of_context(cluster.context, file=file))
    record = {"pod": {"namespace": cluster.namespace, "name": "gone", "uid": "u"}}
    made = named(CONFIG_MAPS, "chaoskit-r9", data={"owner": json.dumps(record)})
    made["metadata"]["labels"] = {
        "chaoskit.dev/run": "r9", "chaoskit.dev/role": "owner", "chaoskit.dev/user": str(os.getuid()),
    }  # fmt: skip
    api_server.put("configmaps", made, namespace=cluster.namespace)
    (report,) = objects.sweep(connection, cluster.namespace)
    connection.close()
    assert report.removed == ("ConfigMap chaoskit-r9",)
    assert {one for one in asked(api_server) if (one[0], one[2]) not in LOOKED_FOR} <= role
