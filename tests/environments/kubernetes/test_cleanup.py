"""The order of a cleanup, and what becomes of a fault that Chaos Mesh does not take back."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.api_kinds import JOBS, PODS, SERVICES
from chaoskit.environments.kubernetes.cleanup import STAGES, clean_up
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.selectors import RunIdentity
from tests.environments.kubernetes import cluster_objects as some
from tests.environments.kubernetes.scripted_server import Scripted, scripted, status

FORCED = "chaos-mesh.chaos-mesh.org/cleanFinalizer"


class ChaosMesh:
    """Plays the controller each time that the cleanup pauses, and is the cleanup's clock."""

    def __init__(self, connection, namespace, *, recovers=True, obeys=True):
        self.connection, self.namespace = connection, namespace
        self.recovers, self.obeys = recovers, obeys
        self.now, self.seen = 0.0, []

    def pause(self, seconds):
        self.now += seconds
        self.seen.append(some.there(self.connection, self.namespace))
        for fault in self.connection.page(ApiTarget(some.NETWORK_CHAOS, self.namespace), {})["items"]:
            metadata = fault["metadata"]
            forced = self.obeys and (metadata.get("annotations") or {}).get(FORCED) == "forced"
            if "deletionTimestamp" in metadata and (self.recovers or forced):
                target = ApiTarget(some.NETWORK_CHAOS, self.namespace, metadata["name"])
                self.connection.patch(target, {"metadata": {"finalizers": None}})


@pytest.fixture
def run(connection, cluster, tmp_path, api_server, crds):
    made = RunObjects(connection, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)
    made.create(JOBS, some.job("trainer"), role="trainer")
    made.create(PODS, some.pod("p0"), role="trainer")
    made.create(SERVICES, some.service("names"), role="trainer")
    made.create(some.NETWORK_CHAOS, some.partition("cut", made), role="fault")
    connection.create(cluster.namespace, PODS, some.pod("foreign"))
    return made


def cleaned(run, connection, mesh, limit=5.0):
    return clean_up(connection, run.identity, limit=limit, pause=mesh.pause, clock=lambda: mesh.now)


def test_faults_then_jobs_then_pods_then_the_owner(run, connection, cluster):
    mesh = ChaosMesh(connection, cluster.namespace)
    report = cleaned(run, connection, mesh)
    assert (report.forced, report.left) == ((), ())
    assert report.removed == (
        "NetworkChaos cut", "Job trainer", "Pod p0", "Service names", "ConfigMap chaoskit-r1",
    )  # fmt: skip
    assert some.there(connection, cluster.namespace) == {"Pod foreign"}
    # Before the fault was taken back, nothing had gone.
    assert mesh.seen[0] == {
        "NetworkChaos cut", "Pod p0", "Job trainer", "Service names", "ConfigMap chaoskit-r1", "Pod foreign",
    }  # fmt: skip


def test_a_fault_that_is_not_taken_back_goes_by_force_and_that_is_told(run, connection, cluster):
    mesh = ChaosMesh(connection, cluster.namespace, recovers=False)
    report = cleaned(run, connection, mesh)
    assert report.forced == ("NetworkChaos cut",) and report.left == ()
    assert report.sentences == (
        "NetworkChaos cut was removed by force, because Chaos Mesh did not take it back: its pods were removed too",
    )
    assert "Pod p0" in report.removed and some.there(connection, cluster.namespace) == {"Pod foreign"}
    assert mesh.now >= 5.0


def test_what_cannot_be_removed_is_named_with_its_command_and_its_owner_stays_for_a_sweep(run, connection, cluster):
    mesh = ChaosMesh(connection, cluster.namespace, recovers=False, obeys=False)
    report = cleaned(run, connection, mesh)
    assert [one.name for one in report.left] == ["cut", "chaoskit-r1"] and report.forced == ()
    by_hand = f"kubectl delete networkchaos.chaos-mesh.org cut --namespace {cluster.namespace}"
    assert report.sentences[0] == f"networkchaos.chaos-mesh.org cut is left, and its fault may last: {by_hand}"
    assert some.there(connection, cluster.namespace) == {"NetworkChaos cut", "ConfigMap chaoskit-r1", "Pod foreign"}
    mesh.recovers = True
    again = cleaned(run, connection, mesh)
    assert again.left == () and some.there(connection, cluster.namespace) == {"Pod foreign"}


def test_a_job_does_not_replace_its_pods_meanwhile(run, connection, cluster, monkeypatch):
    """A controller makes a new pod as soon as one has gone, for as long as the job is there."""
    delete, made = connection.delete, []

    def with_controller(target, **options):
        delete(target, **options)
        if target.kind == PODS and "Job trainer" in some.there(connection, cluster.namespace):
            made.append(run.create(PODS, some.pod(f"again-{len(made)}"), role="trainer"))

    monkeypatch.setattr(connection, "delete", with_controller)
    assert cleaned(run, connection, ChaosMesh(connection, cluster.namespace)).left == ()
    assert made == [] and some.there(connection, cluster.namespace) == {"Pod foreign"}


def test_a_run_that_is_gone_already(connection, cluster):
    report = clean_up(connection, RunIdentity(cluster.namespace, "r9", "u9"))
    assert (report.removed, report.forced, report.left) == (("ConfigMap chaoskit-r9",), (), ())


FORBIDDEN, ABSENT = status(403, "Forbidden", "no"), status(404, "NotFound", "the server has no such resource")


@pytest.mark.parametrize("answer", [FORBIDDEN, ABSENT])
def test_kinds_that_the_cluster_lacks_or_hides_have_no_objects(answer):
    """A user who may not list faults of Chaos Mesh has made none."""
    with scripted(*answers(answer)) as script:
        assert clean_up(script.connection(), RunIdentity("staging", "r1", "u1")).removed == ("ConfigMap chaoskit-r1",)
    assert not script.answers


def answers(for_added_kinds):
    """A list of each kind, then the deletion of the owner."""
    empty = Scripted(body={"metadata": {}, "items": []})
    for kinds in STAGES:
        yield from [for_added_kinds if kind.group not in ("", "batch") else empty for kind in kinds]
    yield Scripted()


def test_kinds_of_kubernetes_itself_must_be_seen():
    """Otherwise a run would seem to be cleaned up that is not."""
    added = [kind for kinds in STAGES[:2] for kind in kinds if kind.group not in ("", "batch")]
    with scripted(*[ABSENT] * len(added), FORBIDDEN) as script:
        with pytest.raises(ClusterError) as raised:
            clean_up(script.connection(), RunIdentity("staging", "r1", "u1"))
        assert raised.value.status == 403
    assert {request[0] for request in script.requests} == {"GET"}
